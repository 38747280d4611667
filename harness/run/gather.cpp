#include "harness/run/gather.h"

#include <algorithm>

#include "harness/record/join.h"
#include "harness/record/json.h"
#include "harness/record/verdict_kind.h"

namespace tidemark {
namespace {

int weight(Status status) { return status == Status::pass ? 2 : status == Status::skip ? 1 : 0; }

// One verdict a control: it is caught where any rank caught it, and open where one could not tell.
void merge_controls(std::vector<Verdict>& verdicts) {
  std::vector<Verdict> merged;
  for (auto& verdict : verdicts) {
    auto same = std::ranges::find_if(merged, [&](const Verdict& other) {
      return other.name == verdict.name && other.variant == verdict.variant;
    });
    if (kind_of(verdict) != VerdictKind::control || same == merged.end())
      merged.push_back(verdict);
    else if (weight(verdict.status) > weight(same->status))
      *same = verdict;
  }
  verdicts = std::move(merged);
}

}  // namespace

TrialRecord gather(TrialRecord mine, World& world) {
  if (world.size() > 1 && !world.alone()) {
    const auto all = world.gather(world.leads() ? "" : json_text(mine));
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      join(mine, parse_trial(all[rank], "the record of rank " + std::to_string(rank)));
  }
  for (auto& variant : mine.variants)
    std::erase_if(variant.growth, [](const Growth& curve) { return curve.points.empty(); });
  merge_controls(mine.verdicts);
  return mine;
}

}  // namespace tidemark
