// Mistakes that are made in a scenario's programs from outside: in collectives, waits and operators
// on their way, and in the parameters between steps. For mutants_test.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "harness/scenario.h"

namespace tidemark::testing {

using Tensors = std::vector<at::Tensor>;

/// A program with a mistake, by what it does where it can. Each function returns whether it has
/// made one.
struct Mistake {
  std::string name;
  std::string caught_by;  // how a verdict begins that must fail; "a|b": one of the two
  /// Before and after a step: the parameters of this rank, the step, and what was kept.
  std::function<void(const Tensors& parameters, int step, Tensors& kept)> before = {}, after = {};
  /// After an operator: its name, its place among those of its kind in the step, its results.
  std::function<bool(const std::string& name, int nth, Tensors& results)> leaves = {};
  /// A reduction of `count` elements, the nth of the step; it may be left out.
  std::function<bool(int nth, std::size_t& count, ncclRedOp_t& how, bool& left_out,
                     cudaStream_t& stream)>
      reduces = {};
  std::function<bool(int nth)> leaves_out_wait = {};
  std::function<void(Oracle& oracle)> oracle = {};
};

/// The mutant of the step that runs; none outside of steps.
struct Now {
  std::recursive_mutex mutex;  // autograd has threads of its own
  const Mistake* mutant = nullptr;
  int step = 0, reductions = 0, waits = 0;
  std::map<std::string, int> operators;
  int done = 0;  // mistakes made
  std::deque<Tensors> held;
};
extern Now now;

/// aten::mm, addmm, bmm; together one kind.
bool is_product(const std::string& name);
/// The scenario, with the mistake in all of its variants. Refers to both.
Scenario broken(const Scenario& scenario, const Mistake& mutant);
/// Operators are followed from here on.
void follow_operators();

}  // namespace tidemark::testing
