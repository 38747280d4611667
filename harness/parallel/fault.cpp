#include "harness/parallel/fault.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "harness/parallel/fault_plan.h"

namespace tidemark {
namespace {

std::vector<FaultPlan> from_environment() {
  const char* set = std::getenv("TIDEMARK_FAULT");
  return set == nullptr || *set == 0 ? std::vector<FaultPlan>() : parse_faults(set);
}

void break_it(const std::string& action, const std::string& call, int nth) {
  if (action == "throw")
    throw std::runtime_error(fmt::format("injected fault in {} {}", call, nth));
  if (action == "oom")
    at::empty({std::int64_t{1} << 50}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
  if (action == "hang")
    for (;;) pause();
  if (action == "slow") sleep(2);
  if (action == "exit") _exit(7);
  if (action == "kill") raise(SIGKILL);
}

}  // namespace

void maybe_fault(int rank, const std::string& call) {
  static const auto plans = from_environment();
  static std::vector<int> seen(plans.size());
  const FaultPlan* due = nullptr;  // all count, whichever of them breaks it
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const FaultPlan& plan = plans[i];
    if (rank != plan.rank || (plan.call != "*" && plan.call != call)) continue;
    if (++seen[i] == plan.nth) due = &plan;
  }
  if (due != nullptr) break_it(due->action, call, due->nth);
}

}  // namespace tidemark
