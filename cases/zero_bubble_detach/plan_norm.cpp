#include <utility>

#include "cases/zero_bubble_detach/plan.h"

namespace tidemark::zero_bubble_detach {

// The formulas of the backwards are those of tools/autograd/derivatives.yaml and
// torch/csrc/autograd/FunctionsManual.cpp.
Tensor Operators::norm_in_floats(const Tensor& x, const Tensor& weight) {
  const auto wide = sizes_.tokens * sizes_.hidden * 4, narrow = sizes_.tokens * 4;
  const auto making = [this](std::int64_t bytes) {
    return
        [this, bytes](Node&, const Tensor&, const auto&) { return Tensors{autograd_.make(bytes)}; };
  };
  auto node = autograd_.node({x}, {}, making(x->bytes));
  const Tensor y = result(node, autograd_.make(wide));

  // grad * (2 * self.pow(1))
  node = autograd_.node({y}, {y}, [this, wide](Node& self, const Tensor&, const auto&) {
    const Tensors saved = Autograd::unpack(self);
    const Tensor power = autograd_.make(wide), twice = autograd_.make(wide);
    return Tensors{autograd_.make(wide)};
  });
  Tensor next = result(node, autograd_.make(wide));

  node = autograd_.node({next}, {}, making(wide));  // the mean
  next = result(node, autograd_.make(narrow));

  node = autograd_.node(
      {next}, {}, [](Node&, const Tensor& gradient, const auto&) { return Tensors{gradient}; });
  next = result(node, autograd_.make(narrow));  // epsilon added

  // -0.5 * grad * result.pow(3)
  node = autograd_.node({next}, {}, [this, narrow](Node& self, const Tensor&, const auto&) {
    const Tensors saved = Autograd::unpack(self);
    const Tensor half = autograd_.make(narrow), power = autograd_.make(narrow);
    return Tensors{autograd_.make(narrow)};
  });
  next = result(node, autograd_.make(narrow));
  autograd_.save_output(*node, next);

  // The second factor's gradient is summed over a row.
  node = autograd_.node({y, next}, {y, next}, [=, this](Node& self, const Tensor&, const auto&) {
    const Tensors saved = Autograd::unpack(self);
    const Tensor product = autograd_.make(wide), first = autograd_.make(wide);
    return Tensors{first, autograd_.make(narrow)};
  });
  next = result(node, autograd_.make(wide));

  node = autograd_.node({next}, {}, making(wide));
  next = result(node, autograd_.make(x->bytes));

  // The weight's gradient is summed over the tokens when the operator has let go what it has
  // unpacked.
  node = autograd_.node(
      {next, weight}, {next, weight},
      [this, bytes = weight->bytes](Node& self, const Tensor&, const auto& wanted) {
        Tensors gradients(2);
        Tensor product;
        {
          const Tensors saved = Autograd::unpack(self);
          if (wanted[1]) product = autograd_.make(saved[0]->bytes);
          if (wanted[0]) gradients[0] = autograd_.make(saved[0]->bytes);
        }
        if (wanted[1]) {
          gradients[1] = autograd_.make(bytes);
          if (sum_.buffer > 0) {
            const Tensors shared{autograd_.make(sum_.buffer), autograd_.make(sum_.locks)};
          }
        }
        return gradients;
      });
  return result(node, autograd_.make(x->bytes));
}

}  // namespace tidemark::zero_bubble_detach
