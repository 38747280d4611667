#include "reports/compare/kinds_changed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>

#include "reports/compare/pairs.h"
#include "reports/overview.h"
#include "reports/program/text.h"
#include "reports/saving.h"

namespace tidemark {
namespace {

/// The categories of the rank with the highest peak, which sum to `total`.
struct Made {
  Bytes total = 0;
  std::map<MemoryKind, Bytes> parts;
};

Made made_of(const VariantRecord& variant, Statistic statistic) {
  Made out;
  for (const RankRecord& rank : variant.ranks) {
    if (rank.categories.empty()) continue;
    VariantRecord alone;
    alone.ranks = {rank};
    Made made;
    for (const auto& [kind, category] : rank.categories)
      made.total += made.parts[kind] = category.peak_share;
    const Bytes active = statistic == Statistic::active ? worst_peak(alone, statistic) : 0;
    if (active > made.total) {
      made.parts[MemoryKind::waiting] = active - made.total;
      made.total = active;
    }
    if (made.total > out.total) out = std::move(made);
  }
  return out;
}

struct Waterfall {
  std::string peak;
  Made before, after;
  Bytes by() const { return std::abs(after.total - before.total); }
};

std::vector<AlivePart> beyond(const Waterfall& step) {
  std::map<MemoryKind, Bytes> sums = step.after.parts;
  for (const auto& [kind, bytes] : step.before.parts) sums[kind] -= bytes;
  std::vector<AlivePart> out;
  for (const auto& [kind, bytes] : sums)
    if (bytes != 0) out.push_back({.kind = kind, .bytes = bytes});
  std::ranges::stable_sort(out, std::greater(),
                           [](const AlivePart& part) { return std::abs(part.bytes); });
  return out;
}

}  // namespace

std::vector<Section> kinds_changed(const Report& base, const Report& fresh, std::size_t most) {
  std::map<std::string, Waterfall> largest;  // by scenario
  for (const TrialPair& pair : pair_trials(base, fresh).trials)
    for (const VariantRecord& after : pair.fresh->variants) {
      const VariantRecord* before = variant_in(*pair.base, after.name);
      const Statistic statistic =
          pair.fresh->statistic == Statistic::active ? Statistic::active : Statistic::allocated;
      if (before == nullptr) continue;
      Waterfall step{fmt::format("{} {}: peak of {}", pair.name, after.name, name_of(statistic)),
                     made_of(*before, statistic), made_of(after, statistic)};
      if (step.before.total == 0 || step.after.total == 0) continue;
      Waterfall& largest_step = largest[pair.fresh->scenario];
      if (step.by() > largest_step.by()) largest_step = std::move(step);
    }
  std::vector<Waterfall> steps;
  for (auto& [scenario, step] : largest)
    if (step.by() > 0) steps.push_back(std::move(step));
  std::ranges::stable_sort(steps, std::greater(), &Waterfall::by);
  std::vector<Section> out;
  for (const Waterfall& step : steps)
    out.push_back(waterfall(step.peak, step.before.total, step.after.total, beyond(step), most));
  return out;
}

}  // namespace tidemark
