#include "cases/frozen_reshard/inspect.h"

#include <algorithm>

#include "cases/device_facts.h"
#include "cases/frozen_reshard/closed_forms.h"
#include "harness/judge/counts.h"
#include "harness/parallel/sharded_calls.h"

namespace tidemark::frozen_reshard {
std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  if (record.steps.empty()) return {};
  const auto setup = setup_of(trial, claim_of(variant), record.rank);
  const auto expected = predict(setup, current_device_facts());
  std::vector<Call> plan;
  for (const auto& [op, unit] : expected.calls) plan.push_back({op, unit});
  const auto& calls = record.steps.back().calls;
  std::vector<Verdict> verdicts;
  for (const char* op : {"unshard", "reshard", "reduce", "hook"}) {
    verdicts.push_back(counted(std::string("calls/") + op, times(plan, op), times(calls, op),
                               "calls", "as many as in the plan"));
  }
  verdicts.push_back(in_order("calls/order", plan, calls, "calls that differ from the plan's"));

  // The waste, as the baselines' order has it, is part of what they are.
  const auto& frozen = setup.steps.back().frozen;
  const bool wastes = variant.role == Role::baseline;
  verdicts.push_back(counted("order/resharded_late", wastes ? resharded_late(plan, frozen) : 0,
                             resharded_late(calls, frozen), "units",
                             "frozen units still whole when the backward of the unit two before "
                             "begins, or at the end of backward"));

  const auto left = std::ranges::find(record.categories, "frozen", &Category::name);
  verdicts.push_back(counted("rest/frozen", expected.frozen_bytes,
                             left == record.categories.end() ? 0 : left->end, "bytes",
                             "frozen units that the policy keeps whole between steps"));

  std::int64_t used = 0;
  for (const auto& step : record.steps) used += times(step.calls, "freed parameter used");
  verdicts.push_back(counted("failure/freed_parameter", 0, used, "times",
                             "backward reads a parameter that has been freed"));
  return verdicts;
}

}  // namespace tidemark::frozen_reshard
