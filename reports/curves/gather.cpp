#include "reports/curves/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "reports/units.h"

namespace tidemark {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool among(std::string_view name, std::initializer_list<const char*> names) {
  return std::ranges::find(names, lower(name)) != names.end();
}

}  // namespace

bool Gather::names_step(std::string_view name) {
  return among(name, {"step", "steps", "_step", "global_step", "train/global_step", "iteration",
                      "iter", "it"});
}

bool Gather::names_time(std::string_view name) {
  return among(name, {"wall time", "wall_time", "walltime", "_timestamp", "timestamp", "_runtime",
                      "time", "date"});
}

void Gather::fail(const std::string& place, const std::string& what) const {
  throw std::runtime_error(
      fmt::format("{}{}{}: {}", where_, place.empty() ? "" : ": ", place, one_line(what)));
}

void Gather::add(const std::string& curve, std::int64_t step, double value) {
  const auto [at, fresh] = index_.emplace(curve, curves_.size());
  if (fresh) curves_.push_back({curve, {}});
  curves_[at->second].points.push_back({step, value});
}

std::vector<Curve> Gather::take() {
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
