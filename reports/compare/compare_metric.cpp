#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/compare/compare.h"

namespace tidemark {
namespace {

using Value = std::optional<double>;
constexpr double kNoNumber = std::numeric_limits<double>::infinity();

/// Bits, but that every NaN is the same NaN.
bool equal(const Value& a, const Value& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  if (std::isnan(*a) || std::isnan(*b)) return std::isnan(*a) == std::isnan(*b);
  return *a == *b && std::signbit(*a) == std::signbit(*b);
}

double size_of(const Metric& metric, double before, double after) {
  const double size = std::abs(after - before) / metric.scale.value_or(std::abs(before));
  return std::isnan(size) ? kNoNumber : size;
}

/// A figure that is not a number any more is worse than every number, whichever way is bad.
Effect effect_of(const Metric& metric, const Value& before, const Value& after) {
  if (metric.worse == Worse::neither || !before) return Effect::changed;
  if (!after) return metric.kind == Kind::loss ? Effect::regression : Effect::changed;
  if (std::isnan(*after)) return Effect::regression;
  if (std::isnan(*before)) return Effect::improvement;
  if (metric.worse == Worse::any) return Effect::regression;
  return (*after > *before) == (metric.worse == Worse::up) ? Effect::regression
                                                           : Effect::improvement;
}

}  // namespace

Outcome compare_metric(const Metric& before, const Metric& after, const Thresholds& thresholds) {
  Outcome out;
  const std::size_t steps = std::max(before.values.size(), after.values.size());
  for (std::size_t i = 0; i < steps; ++i) {
    const Value a = i < before.values.size() ? before.values[i] : std::nullopt;
    const Value b = i < after.values.size() ? after.values[i] : std::nullopt;
    if (equal(a, b)) continue;
    out.differs = true;
    const bool whole = a && b;
    if (whole && !thresholds.beyond(before, *a, *b)) continue;
    const Effect effect = effect_of(before, a, b);
    const double size = whole ? size_of(before, *a, *b) : kNoNumber;
    const int step = steps > 1 ? static_cast<int>(i) : -1;
    if (!out.change) {
      out.change = Change{.metric = before.name,
                          .unit = before.unit,
                          .kind = before.kind,
                          .worse = before.worse,
                          .first_step = step,
                          .steps = 0,
                          .threshold = thresholds.of(before).text};
    }
    Change& change = *out.change;
    ++change.steps;
    const bool worse = effect < change.effect || (effect == change.effect && size > change.size);
    if (change.steps > 1 && !worse) continue;
    change.effect = effect;
    change.size = size;
    change.step = step;
    change.before = a;
    change.after = b;
  }
  return out;
}

}  // namespace tidemark
