// Dropout draws from the default generator of its device, so its mask is made here from the CUDA
// generator's state.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// native_dropout(input, p, train) -> (output, mask)
void native_dropout(HostCall& call) {
  const at::Tensor input = tensor_at(call, 0);
  const double p = call.stack[1].toDouble();
  const bool train = !call.stack[2].isBool() || call.stack[2].toBool();
  const auto as_bool = input.options().dtype(at::kBool);
  if (!train || p == 0) {
    give(call, input.clone(), at::ones(input.sizes(), as_bool));
  } else if (p == 1) {
    give(call, at::zeros_like(input), at::zeros(input.sizes(), as_bool));
  } else {
    const at::Tensor kept =
        at::empty(input.sizes(), as_bool).bernoulli_(1 - p, cpu_generator(call.random));
    give(call, input.mul(kept).mul_(1 / (1 - p)), kept);
  }
}

// _fused_dropout(self, p_keep, generator) -> (output, mask as bytes)
void fused_dropout(HostCall& call) {
  const at::Tensor input = tensor_at(call, 0);
  const double keep = call.stack[1].toDouble();
  const at::Tensor kept = at::empty(input.sizes(), input.options().dtype(at::kByte))
                              .bernoulli_(keep, cpu_generator(call.random));
  give(call, input.mul(kept).mul_(1 / keep), kept);
}

// _masked_scale(self, mask, scale)
void masked_scale(HostCall& call) {
  give(call, tensor_at(call, 0).mul(tensor_at(call, 1)).mul_(call.stack[2].toDouble()));
}

}  // namespace

void add_dropout(Compositions& table) {
  table["aten::native_dropout"] = native_dropout;
  table["aten::_fused_dropout"] = fused_dropout;
  table["aten::_masked_scale"] = masked_scale;
}

}  // namespace tidemark::operators
