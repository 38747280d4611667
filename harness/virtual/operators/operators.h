// Table of properties of single operators.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/virtual/operators/random.h"

namespace tidemark::operators {

/// One operator call on the host: `stack` holds the host aliases of its arguments and, afterwards,
/// its results (an undefined tensor leaves that output as the CUDA host code made it). `outputs`
/// are the device's.
struct HostCall {
  const c10::OperatorHandle& op;
  torch::jit::Stack& stack;
  const std::vector<c10::IValue>& outputs;
  RandomState random;
};
using HostKernel = std::function<void(HostCall&)>;

/// A composition for operators whose CPU kernel is missing or differs; empty for all others.
HostKernel composition(const std::string& name);
/// Runs the operator's own CPU kernel on the stack.
void run_cpu_kernel(HostCall& call);
/// Runs the kernel with tensors of half precision in float; the results are rounded once.
void run_cpu_kernel_in_float(HostCall& call);
/// Runs `compose`, or the CPU kernel where it is empty; of nested tensors nested_kernel.
void run_host_kernel(HostCall& call, const HostKernel& compose);
/// Operators on nested tensors, for which there are no other compositions.
void nested_kernel(HostCall& call);

/// Has kernels of its own for sparse tensors. Every other operator of theirs is made of operators
/// on their parts, which compute for themselves.
bool computes_sparse(const std::string& name);
/// Has kernels of its own for nested tensors. Every other operator of theirs is made of operators
/// on their buffers.
bool computes_nested(const std::string& name);
/// True if this call of one is made of operators after all: a sum of two sparse tensors, a mask of
/// compressed rows.
bool made_of_operators(const std::string& name, const c10::IValue* arguments);
/// Allocation, metadata and queries: nothing to compute, never wrapped. So are operators that are
/// made of others.
bool computes_nothing(const std::string& name);
/// The CUDA host code reads values that its own inner operators computed (a maximum, a sum): these
/// need numbers too.
bool reads_inner_values(const std::string& name);
/// Its CUDA host code reads back how many elements its output has: known beforehand from the CPU
/// kernel.
bool counts(const std::string& name);
/// Its CUDA host code reads values, but neither what it gives nor how long it works depends on
/// them: 1 as each of them (a count, a position, true) is as good as any.
bool reads_whatever(const std::string& name);
/// Looks whether a decomposition failed: the values that its host code reads for that are not known
/// beforehand.
bool looks_for_errors(const std::string& name);
/// The count, from the host aliases of the operator's arguments.
std::int64_t count_on_host(const c10::OperatorHandle& op, torch::jit::Stack stack);
/// Its output's size, or its result on the host, depends on values: refused where there are none.
bool needs_values(const std::string& name);
/// Writes its in-place arguments without reading them.
bool overwrites(const std::string& name);
/// Arguments that it writes although its schema does not say so.
std::vector<std::size_t> silently_written(const std::string& name);
/// Draws random numbers from the default generator without a generator argument.
bool draws_silently(const std::string& name);
/// Reads, of its first tensor, only what it returns.
bool gathers(const std::string& name);
/// CPU operators through which a program reads and fills its pinned buffers, as far as race
/// detection looks.
bool touches_pinned_memory(const std::string& name);
/// Communication: real data moves there by itself.
bool is_communication(const std::string& name);

}  // namespace tidemark::operators
