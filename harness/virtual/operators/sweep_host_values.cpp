// Operators that give a value on the host (a bool, a number), and host code that decides by one.
#include "harness/virtual/operators/sweep.h"

namespace tidemark::operators {
// The value of an expression of the inputs t[0], t[1] ..., as a tensor.
#define ASK(label, inputs, expression) \
  add(                                 \
      cases, label, inputs,            \
      [](const Tensors& t) -> Tensors { return {at::scalar_tensor(expression)}; }, true, false)

std::vector<Case> host_value_cases() {
  const auto a = at::arange(8), b = at::arange(8), c = at::arange(8) + 1;
  const auto x = at::linspace(-2, 2, 12).view({3, 4}), y = x.clone();
  const auto far = x + 1e-3, nan = x.log();
  const auto yes = at::ones({}, at::kBool), no = at::zeros({}, at::kBool);
  const auto left = at::tensor({1, 1, 0, 1, 0, 0}, at::kInt).view({2, 3}).to(at::kBool),
             scattered = at::tensor({1, 0, 1, 0, 1, 1}, at::kInt).view({2, 3}).to(at::kBool);
  const auto padded = at::ones({2, 3, 4});
  std::vector<Case> cases;
  ASK("equal, same values", IN(a, b), at::equal(t[0], t[1]));
  ASK("equal, other values", IN(a, c), at::equal(t[0], t[1]));
  ASK("equal, one differs", IN(x, y.clone().fill_diagonal_(7)), at::equal(t[0], t[1]));
  ASK("equal, floats", IN(x, y), at::equal(t[0], t[1]));
  ASK("equal, transposed", IN(x, y.t().contiguous().t()), at::equal(t[0], t[1]));
  ASK("equal, other shapes", IN(a, x), at::equal(t[0], t[1]));
  ASK("equal, NaN", IN(nan, nan.clone()), at::equal(t[0], t[1]));
  ASK("equal, empty", IN(a.narrow(0, 0, 0), b.narrow(0, 0, 0)), at::equal(t[0], t[1]));
  ASK("equal, bool", IN(left, scattered), at::equal(t[0], t[1]));
  ASK("equal, bf16", IN(x.to(at::kBFloat16), far.to(at::kBFloat16)), at::equal(t[0], t[1]));
  ASK("allclose", IN(x, y + 1e-7), at::allclose(t[0], t[1]));
  ASK("allclose, far", IN(x, far), at::allclose(t[0], t[1]));
  ASK("_nested_tensor_from_mask_left_aligned, left", IN(padded, left),
      at::_nested_tensor_from_mask_left_aligned(t[0], t[1]));
  ASK("_nested_tensor_from_mask_left_aligned, not", IN(padded, scattered),
      at::_nested_tensor_from_mask_left_aligned(t[0], t[1]));
  for (const auto& [name, flag] : {std::pair{"true", yes}, {"false", no}}) {
    ASK(name, IN(flag), t[0].is_nonzero());
    ASK(name, IN(flag), at::equal(t[0], t[0].new_ones({}, at::kBool)));
    ASK(name, IN(flag), t[0].item<bool>());
  }
  ASK("all", IN(x), (t[0] > -3).all().is_nonzero());
  ASK("any", IN(x), (t[0] > 3).any().is_nonzero());
  ASK("item", IN(a), t[0].sum().item());
  ASK("argmax", IN(x), t[0].argmax().item());
  ASK("cov with weights", IN(x, at::tensor({1, 2, 3, 4})), at::cov(t[0], 1, t[1]).sum().item());
  ASK("cov, a negative weight", IN(x, at::tensor({1, 2, -3, 4})),
      at::cov(t[0], 1, t[1]).sum().item());
  ASK("multinomial, a bad distribution", IN(-x.abs()), at::multinomial(t[0], 1).numel());
  ASK("bernoulli, a bad probability", IN(x.abs() + 2), at::bernoulli(t[0]).numel());
  ASK("tensor_split by a tensor", IN(x, at::tensor({1, 2})),
      t[0].tensor_split(t[1].cpu())[1].size(0));
  ASK("segment_reduce", IN(x, at::tensor({1, 2})),
      at::segment_reduce(t[0], "max", t[1]).sum().item());
  ASK("segment_reduce, lengths that do not fit", IN(x, at::tensor({1, 3})),
      at::segment_reduce(t[0], "max", t[1]).sum().item());
  ASK("ctc_loss by lengths on the device",
      IN(at::log_softmax(at::linspace(0, 1, 60).view({5, 2, 6}), 2),
         at::tensor({1, 2, 3, 4}).view({2, 2}), at::tensor({5, 4}), at::tensor({2, 1})),
      at::ctc_loss(t[0], t[1], t[2], t[3]).item());
  return cases;
}

}  // namespace tidemark::operators
