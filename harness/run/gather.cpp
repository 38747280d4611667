#include "harness/run/gather.h"

#include <algorithm>

#include "harness/judge/gradients.h"
#include "harness/record/json.h"

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
    if (!verdict.name.starts_with("control/") || same == merged.end())
      merged.push_back(verdict);
    else if (weight(verdict.status) > weight(same->status))
      *same = verdict;
  }
  verdicts = std::move(merged);
}

void worse(SweepPoint& mine, const SweepPoint& theirs) {
  mine.allocated = std::max(mine.allocated, theirs.allocated);
  mine.active = std::max(mine.active, theirs.active);
  mine.reserved = std::max(mine.reserved, theirs.reserved);
  mine.step_time_ns = std::max(mine.step_time_ns, theirs.step_time_ns);
}

}  // namespace

void join(TrialRecord& mine, TrialRecord theirs) {
  for (std::size_t v = 0; v < mine.variants.size(); ++v) {
    std::ranges::move(theirs.variants.at(v).ranks, std::back_inserter(mine.variants[v].ranks));
    worse(mine.variants[v].gradients, theirs.variants.at(v).gradients);
    for (std::size_t i = 0; i < mine.variants[v].sweep.size(); ++i)
      worse(mine.variants[v].sweep[i], theirs.variants.at(v).sweep.at(i));
    for (std::size_t i = 0; i < mine.variants[v].growth.size(); ++i)
      if (auto& curve = theirs.variants.at(v).growth.at(i); !curve.points.empty())
        mine.variants[v].growth[i] = std::move(curve);
  }
  std::ranges::move(theirs.verdicts, std::back_inserter(mine.verdicts));
}

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
