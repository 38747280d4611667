#include "reports/curves/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/record/number.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

bool among(std::string_view name, std::initializer_list<const char*> names) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::ranges::find(names, lower) != names.end();
}

// Times of day, and the bounds that W&B exports beside every column.
bool is_no_curve(std::string_view name) {
  return among(name, {"wall time", "wall_time", "walltime", "_timestamp", "timestamp", "_runtime",
                      "time", "date"}) ||
         name.ends_with("__MIN") || name.ends_with("__MAX");
}

}  // namespace

bool names_step(std::string_view name) {
  return among(name, {"step", "steps", "_step", "global_step", "train/global_step", "iteration",
                      "iter", "it"});
}

void Points::fail(const std::string& place, const std::string& what) const {
  throw std::runtime_error(
      fmt::format("{}{}{}: {}", where_, place.empty() ? "" : ": ", place, one_line(what)));
}

void Points::add(const std::string& curve, std::int64_t step, double value) {
  const auto [at, fresh] = index_.emplace(curve, curves_.size());
  if (fresh) curves_.push_back({curve, {}});
  curves_[at->second].points.push_back({step, value});
}

void Points::add(const Record& record, const std::string& place, bool numbers_only) {
  const auto named = std::ranges::find_if(record, names_step, &Record::value_type::first);
  if (named == record.end()) fail(place, "has no step, iteration or global_step");
  const auto step = parse_step(named->second);
  if (!step) fail(place, fmt::format("'{}' is not a step", named->second));
  for (const auto& [name, text] : record) {
    if (names_step(name) || is_no_curve(name)) continue;
    const auto value = parse_number(text);
    if (value)
      add(name, *step, *value);
    else if (numbers_only ? !text.empty() : name == "loss")  // empty: not logged at this step
      fail(place, fmt::format("'{}' is not a number", text));
  }
}

std::vector<Curve> Points::take() {
  if (curves_.empty()) fail("", "holds no point of a curve");
  for (Curve& curve : curves_) {
    std::ranges::stable_sort(curve.points, {}, &CurvePoint::step);
    const auto twice = std::ranges::adjacent_find(curve.points, {}, &CurvePoint::step);
    if (twice != curve.points.end())
      fail("", fmt::format("'{}' has step {} twice ({} and {}): keep one", curve.name, twice->step,
                           twice->value, std::next(twice)->value));
  }
  return std::move(curves_);
}

}  // namespace tidemark
