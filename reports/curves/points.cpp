#include "reports/curves/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "harness/record/number.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

/// Names of steps. A record with several means the first in this order. W&B counts its own calls as
/// _step. Epochs are steps where nothing else is.
constexpr std::string_view kSteps[] = {"trainer/global_step",
                                       "train/global_step",
                                       "global_step",
                                       "step",
                                       "steps",
                                       "iteration",
                                       "iter",
                                       "it",
                                       "global_steps",
                                       "current_steps",
                                       "num_updates",
                                       "_step",
                                       "epoch"};

// Times of day, and the bounds that W&B exports beside every column.
bool is_no_curve(std::string_view name) {
  constexpr std::string_view kOthers[] = {"wall time", "wall_time", "walltime", "_timestamp",
                                          "timestamp", "_runtime",  "time",     "date"};
  if (name.ends_with("__MIN") || name.ends_with("__MAX")) return true;
  const std::string metric = metric_of(name);
  return std::ranges::find(kOthers, metric) != std::end(kOthers) ||
         rank_of_step(metric) < std::size(kSteps);
}

/// A name of a loss that stands twice, or none.
std::optional<std::string> loss_twice(const Record& record) {
  for (auto one = record.begin(); one != record.end(); ++one) {
    if (one->first.find("oss") == std::string::npos) continue;
    const auto same = [&](const auto& other) { return other.first == one->first; };
    if (record.size() < 64 && std::any_of(std::next(one), record.end(), same)) return one->first;
  }
  return std::nullopt;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string metric_of(std::string_view name) {
  const auto dash = name.rfind(" - ");
  return lower(dash == std::string_view::npos ? name : name.substr(dash + 3));
}

bool is_missing(std::string_view text) { return text.empty() || text == "null" || text == "None"; }

std::size_t rank_of_step(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(kSteps, lower(name)) - std::begin(kSteps));
}

bool names_step(std::string_view name) { return rank_of_step(name) < std::size(kSteps); }

void Points::note(const std::string& kind, const std::string& text) {
  const auto same = [&](const auto& one) { return one.first == kind; };
  if (std::ranges::none_of(notes_, same)) notes_.emplace_back(kind, text);
}

std::vector<std::string> Points::notes() const {
  std::vector<std::string> out;
  for (const auto& [kind, text] : notes_) out.push_back(text);
  if (missing_ > 0)
    out.push_back(fmt::format("{} of a loss without a number, which {} left out",
                              plural(missing_, "value"), missing_ == 1 ? "is" : "are"));
  return out;
}

void Points::fail(const std::string& place, const std::string& what) const {
  throw std::runtime_error(
      fmt::format("{}{}{}: {}", where_, place.empty() ? "" : ": ", place, one_line(what)));
}

Points::Name& Points::known(const std::string& name) {
  const auto [at, fresh] = names_.try_emplace(name);
  if (fresh) at->second = {rank_of_step(name), is_no_curve(name), lower(name) == "loss", {}};
  return at->second;
}

void Points::add(Name& name, const std::string& text, std::int64_t step, double value) {
  if (!name.curve) {
    name.curve = curves_.size();
    curves_.push_back({text, {}});
  }
  curves_[*name.curve].points.push_back({step, value});
}

void Points::add(const std::string& curve, std::int64_t step, double value) {
  add(known(curve), curve, step, value);
}

void Points::add(const Record& record, const std::string& place, bool numbers_only) {
  meant_.clear();
  for (const auto& [name, text] : record) meant_.push_back(&known(name));
  const auto named = std::ranges::min_element(meant_, {}, &Name::step);
  if (named == meant_.end() || (*named)->step == std::size(kSteps))
    fail(place, "has no step, iteration or global_step");
  const std::string& at = record[static_cast<std::size_t>(named - meant_.begin())].second;
  if (is_missing(at)) return;  // of another axis
  const auto step = parse_step(at);
  if (!step) fail(place, fmt::format("'{}' is not a step", at));
  if (const auto twice = loss_twice(record))
    fail(place, fmt::format("has '{}' twice: give a file with one loss a line", *twice));
  for (std::size_t i = 0; i < record.size(); ++i) {
    const auto& [name, text] = record[i];
    if (meant_[i]->other) continue;
    const auto value = parse_number(text);
    if (value)
      add(*meant_[i], name, *step, *value);
    else if (is_missing(text))
      missing_ += meant_[i]->loss;
    else if (numbers_only || meant_[i]->loss)
      fail(place, fmt::format("'{}' is not a number", text));
  }
}

std::vector<Curve> Points::take() {
  if (curves_.empty())
    fail("", missing_ > 0 ? "holds no point of a curve: no loss in it is a number"
                          : "holds no point of a curve");
  for (Curve& curve : curves_) {
    auto& points = curve.points;
    if (!std::ranges::is_sorted(points, {}, &CurvePoint::step)) {
      curve.falls = true;
      std::ranges::stable_sort(points, {}, &CurvePoint::step);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i + 1 < points.size() && points[i + 1].step == points[i].step) {
        if (curve.twice.empty() || curve.twice.back() != points[i].step)
          curve.twice.push_back(points[i].step);
      } else {
        points[kept++] = points[i];
      }
    }
    points.resize(kept);
  }
  return std::move(curves_);
}

}  // namespace tidemark
