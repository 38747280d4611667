// Small differences between kernels of CUDA and of the CPU: results that CUDA leaves empty, and
// booleans as numbers.
#include "harness/virtual/numbers/compositions.h"

namespace tidemark::numbers {
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

}  // namespace

void add_differences(Compositions& table) {
  for (const char* name :
       {"aten::unique_consecutive", "aten::unique_dim", "aten::unique_dim_consecutive"})
    table[name] = unique;
  table["aten::_unique2"] = unique2;
  table["aten::abs.out"] = abs_out;
  table["aten::trace"] = trace;
}

}  // namespace tidemark::numbers
