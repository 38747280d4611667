#include "cases/frozen_reshard/inspect.h"

#include <algorithm>
#include <set>
#include <string>

#include "cases/device_facts.h"
#include "cases/frozen_reshard/closed_forms.h"

namespace tidemark::frozen_reshard {
namespace {

Verdict counted(const std::string& name, std::int64_t expected, std::int64_t measured,
                const std::string& unit, const std::string& formula) {
  Verdict verdict;
  verdict.name = name;
  verdict.low = verdict.high = static_cast<double>(expected);
  verdict.measured = static_cast<double>(measured);
  verdict.status = expected == measured ? Status::pass : Status::fail;
  verdict.unit = unit;
  verdict.formula = formula;
  return verdict;
}

std::int64_t times(const std::vector<Call>& calls, const std::string& op) {
  return std::ranges::count(calls, op, &Call::op);
}

std::string text_of(const std::vector<Call>& calls, std::size_t i) {
  return i < calls.size() ? calls[i].op + " of " + calls[i].unit : "nothing";
}

Verdict in_order(const std::vector<Call>& expected, const std::vector<Call>& measured) {
  std::int64_t different = 0;
  std::string first;
  for (std::size_t i = 0; i < std::max(expected.size(), measured.size()); ++i) {
    const auto wanted = text_of(expected, i), found = text_of(measured, i);
    if (wanted == found) continue;
    if (different++ == 0)
      first = "call " + std::to_string(i) + ": " + found + " instead of " + wanted;
  }
  auto verdict = counted("calls/order", 0, different, "calls", "calls that differ from the plan's");
  verdict.why = first;
  return verdict;
}

std::size_t index_of(const std::string& unit) { return std::stoul(unit.substr(5)); }

}  // namespace

std::int64_t resharded_late(const std::vector<Call>& calls, const std::vector<bool>& frozen) {
  std::set<std::size_t> whole;  // frozen, since its backward began
  std::int64_t late = 0;
  for (const auto& call : calls) {
    if (call.op == "end of backward") {
      late += std::ssize(whole);
      whole.clear();
    }
    if (call.unit == "step") continue;
    const auto k = index_of(call.unit);
    if (call.op == "reshard") whole.erase(k);
    if (call.op != "backward") continue;
    late += static_cast<std::int64_t>(std::erase_if(whole, [&](auto i) { return i >= k + 2; }));
    if (frozen[k]) whole.insert(k);
  }
  return late;
}

std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  if (record.steps.empty()) return {};
  const auto policy = claim_of(variant);
  const auto expected = replay(trial, policy, record.rank, current_device_facts());
  const auto& calls = record.steps.back().calls;
  std::vector<Verdict> verdicts;
  for (const char* op : {"unshard", "reshard", "reduce", "hook"}) {
    verdicts.push_back(counted(std::string("calls/") + op, times(expected.calls, op),
                               times(calls, op), "calls", "as many as in the plan"));
  }
  verdicts.push_back(in_order(expected.calls, calls));

  // The waste, as the baselines' order has it, is part of what they are.
  const auto frozen = Setup(trial, policy).frozen(trial.steps - 1);
  const bool wastes = variant.role == Role::baseline;
  verdicts.push_back(counted("order/resharded_late",
                             wastes ? resharded_late(expected.calls, frozen) : 0,
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
