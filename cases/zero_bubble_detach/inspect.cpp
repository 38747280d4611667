#include "cases/zero_bubble_detach/inspect.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "cases/zero_bubble_detach/closed_forms.h"
#include "cases/zero_bubble_detach/program.h"
#include "cases/zero_bubble_detach/variants.h"
#include "harness/judge/counts.h"

namespace tidemark::zero_bubble_detach {

namespace {

Bytes highest(const Step& step) {
  Bytes most = 0;
  for (const auto& phase : step.phases) most = std::max(most, phase[Statistic::requested].peak);
  return most;
}

/// What a step has more than the step before, from step `first` on: `expected` in all of them, or
/// the first figure that is not.
Verdict grows(const std::string& name, const Formula& expected, const std::vector<Step>& steps,
              std::size_t first, const std::function<Bytes(const Step&)>& figure) {
  Verdict verdict;
  verdict.name = name;
  verdict.why = "a run of fewer than " + std::to_string(first + 1) + " steps does not show it";
  for (std::size_t i = first; i < steps.size() && verdict.status != Status::fail; ++i) {
    verdict = equal(name, expected, static_cast<double>(figure(steps[i]) - figure(steps[i - 1])),
                    "bytes");
    if (verdict.status == Status::fail) verdict.why = "in step " + std::to_string(i);
  }
  return verdict;
}

}  // namespace

std::vector<Verdict> leaks(const Formula& expected, const std::vector<Step>& steps) {
  const auto at_end = [](const Step& step) { return step.phases.back()[Statistic::requested].end; };
  // The first step still allocates what stays for good, such as workspaces.
  return {grows("leak/requested/end", expected, steps, 1, at_end),
          grows("leak/requested/peak", expected, steps, 2, highest)};
}

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
  std::vector<Verdict> verdicts{
      in_order("order/schedule", expected, found,
               std::string("actions that are not those of ") + name_of(schedule.kind)),
      counted("cost/recomputed_blocks", blocks, measured, "blocks",
              "once a full or an input pass, once a run of the engine in a weight pass")};
  if (policy.backward_cycle)
    std::ranges::move(leaks(leak(trial, policy, record.rank), record.steps),
                      std::back_inserter(verdicts));
  return verdicts;
}

}  // namespace tidemark::zero_bubble_detach
