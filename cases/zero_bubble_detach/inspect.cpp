#include "cases/zero_bubble_detach/inspect.h"

#include "cases/zero_bubble_detach/program.h"
#include "cases/zero_bubble_detach/variants.h"
#include "harness/verdicts.h"

namespace tidemark::zero_bubble_detach {

std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  const Sizes z(trial);
  const auto schedule = schedule_of(trial);
  const auto& policy = variants()[variant.name];
  std::vector<Call> expected, found;
  std::int64_t blocks = 0, measured = 0;
  for (const Action& action : schedule.order[static_cast<std::size_t>(record.rank)]) {
    expected.push_back(call_of(action));
    const auto parts = z.parts(action.stage, schedule.stages);
    const auto again = z.checkpointed_blocks(parts);
    // The first stage has no input gradient: its weight pass is the whole backward.
    const bool whole =
        action.pass == Pass::backward || (action.pass == Pass::weight && parts.first);
    const bool split = !whole && !parts.first && !policy.detach_early;
    if (whole || (split && action.pass == Pass::input)) blocks += again;
    if (split && action.pass == Pass::weight) blocks += again * z.runs_a_block(policy);
  }
  for (const auto& call : record.steps.back().calls) {
    if (call.op == "recompute")
      measured += std::stoll(call.unit);
    else
      found.push_back(call);
  }
  return {in_order("order/schedule", expected, found,
                   std::string("actions that are not those of ") + name_of(schedule.kind)),
          counted("cost/recomputed_blocks", blocks, measured, "blocks",
                  "once a full or an input pass, once a run of the engine in a weight pass")};
}

}  // namespace tidemark::zero_bubble_detach
