#include "harness/parallel/fault.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
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

struct Plans {
  std::vector<FaultPlan> all = from_environment();
  std::vector<int> seen = std::vector<int>(all.size());  // calls that match
};

Plans& plans_of_process() {
  static Plans plans;
  return plans;
}

}  // namespace

void maybe_fault(int rank, const std::string& call) {
  auto& [plans, seen] = plans_of_process();
  if (!plans.empty() && std::ranges::find(fault_calls(), call) == fault_calls().end())
    throw std::logic_error("fault_calls() does not have " + call);
  const FaultPlan* due = nullptr;  // all count, whichever of them breaks it
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const FaultPlan& plan = plans[i];
    if (rank != plan.rank || (plan.call != "*" && plan.call != call)) continue;
    if (++seen[i] == plan.nth) due = &plan;
  }
  if (due != nullptr) break_it(due->action, call, due->nth);
}

std::string faults_left(int rank) {
  std::string left;
  const auto& [plans, seen] = plans_of_process();
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (plans[i].rank == rank && seen[i] < plans[i].nth)
      left += fmt::format("the fault '{}' did not happen: rank {} made {} such calls\n",
                          text_of(plans[i]), rank, seen[i]);
  return left;
}

}  // namespace tidemark
