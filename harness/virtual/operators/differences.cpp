// Small differences between kernels of CUDA and of the CPU: results that CUDA leaves empty,
// booleans as numbers, and bounds of what is drawn.
#include <limits>

#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

/// Leaves the results of CUDA that are empty.
void leave_empty(HostCall& call) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    if (call.outputs[i].toTensor().numel() == 0 && call.stack[i].toTensor().numel() > 0)
      call.stack[i] = at::Tensor();
}

// unique along a dimension: the CPU gives inverse and counts even to a program that asks for none.
void unique(HostCall& call) {
  run_cpu_kernel(call);
  leave_empty(call);
}

// _unique2(self, sorted, return_inverse, return_counts): of booleans CUDA always counts.
void unique2(HostCall& call) {
  if (tensor_at(call, 0).scalar_type() == at::kBool) call.stack[3] = true;
  unique(call);
}

void abs_out(HostCall& call) {
  const at::Tensor self = tensor_at(call, 0);
  if (self.scalar_type() != at::kBool) return run_cpu_kernel(call);
  tensor_at(call, 1).copy_(self);
  give(call, tensor_at(call, 1));
}

void trace(HostCall& call) {
  const at::Tensor self = tensor_at(call, 0);
  if (self.scalar_type() != at::kBool) return run_cpu_kernel(call);
  give(call, self.diagonal().sum());
}

// exponential_(self, lambd, generator): CUDA's is never 0. It takes the logarithm of a number up to
// 1 - eps / 2 (ATen/core/TransformationHelper.h), in float for half precision.
void exponential(HostCall& call) {
  const at::Tensor self = tensor_at(call, 0);
  const at::Tensor drawn = accumulated(self);
  const double rate = call.stack[1].toDouble();
  const double eps = drawn.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon();
  drawn.exponential_(rate, call.stack[2].toOptional<at::Generator>()).clamp_min_(eps / 2 / rate);
  if (!drawn.is_same(self)) self.copy_(drawn);
  give(call, self);
}

}  // namespace

void add_differences(Compositions& table) {
  for (const char* name :
       {"aten::unique_consecutive", "aten::unique_dim", "aten::unique_dim_consecutive"})
    table[name] = unique;
  table["aten::_unique2"] = unique2;
  table["aten::abs.out"] = abs_out;
  table["aten::exponential_"] = exponential;
  table["aten::trace"] = trace;
}

}  // namespace tidemark::operators
