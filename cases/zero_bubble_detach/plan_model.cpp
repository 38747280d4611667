#include <utility>

#include "cases/zero_bubble_detach/plan.h"

namespace tidemark::zero_bubble_detach {

LanguageModel::LanguageModel(Autograd& autograd, const Sizes& sizes,
                             const reference::DeviceFacts& device)
    : Operators(autograd, device),
      sizes_(sizes),
      attention_(sizes.attention(device)),
      lookup_(sizes.lookup(device)),
      sum_(sizes.norm_weight_sum(device)) {}

Tensor LanguageModel::embedding(const Tensor& weight) {
  return apply(
      {weight}, {}, tokens_by(sizes_.hidden, "x"),
      [this, bytes = weight->bytes](const Tensor&, const Tensors&, const auto&) -> Tensors {
        const auto& l = lookup_;
        if (!l.sorts) return {autograd_.make(bytes)};
        const Tensor sorted = autograd_.make(l.indices), order = autograd_.make(l.indices);
        { const Tensor range = autograd_.make(l.indices), sort = autograd_.make(l.sort); }
        Tensor gradient = autograd_.make(bytes);
        const Tensor starts = autograd_.make(l.indices), number = autograd_.make({8, "uniq"});
        { const Tensor keys = autograd_.make(l.indices), unique = autograd_.make(l.unique); }
        const Tensor counts = autograd_.make(l.rows), offsets = autograd_.make(l.rows);
        const Tensor total = autograd_.make({8, "rows"}), parts = autograd_.make(l.parts);
        const Tensor rows = l.atomic ? autograd_.make(l.parts) : nullptr;
        const Tensor sums = autograd_.make(l.sums);
        return {gradient};
      });
}

Tensor LanguageModel::norm(const Tensor& x, const Tensor& weight) {
  return sizes_.norms_in_floats ? norm_in_floats(x, weight) : rms_norm(x, weight);
}

// The formulas of the backwards are those of tools/autograd/derivatives.yaml and
// torch/csrc/autograd/FunctionsManual.cpp.
Tensor LanguageModel::norm_in_floats(const Tensor& x, const Tensor& weight) {
  const Amount wide(sizes_.tokens * sizes_.hidden * 4, "y"), narrow(sizes_.tokens * 4, "s");
  const Tensor y = apply({x}, {}, wide, making(x->bytes));
  Tensor next = apply({y}, {y}, wide, making(wide, {wide, wide}));  // grad * (2 * self.pow(1))
  next = apply({next}, {}, narrow, making(wide));                   // the mean
  next = apply({next}, {}, narrow, passing_on());                   // epsilon added

  // -0.5 * grad * result.pow(3)
  const auto root = autograd_.node({next}, {}, making(narrow, {narrow, narrow}));
  next = result(root, autograd_.make(narrow));
  autograd_.save_output(*root, next);

  // The second factor's gradient is summed over a row.
  next = apply({y, next}, {y, next}, wide, [=, this](const Tensor&, const Tensors&, const auto&) {
    const Tensor product = autograd_.make(wide), first = autograd_.make(wide);
    return Tensors{first, autograd_.make(narrow)};
  });
  next = apply({next}, {}, x->bytes, making(wide));

  // The weight's gradient is summed over the tokens when the operator has let go what it has
  // unpacked.
  return apply({next, weight}, {next, weight}, x->bytes,
               [this, bytes = weight->bytes](const Tensor&, Tensors saved, const auto& wanted) {
                 Tensors gradients(2);
                 Tensor product;
                 if (wanted[1]) product = autograd_.make(saved[0]->bytes);
                 if (wanted[0]) gradients[0] = autograd_.make(saved[0]->bytes);
                 saved.clear();
                 if (!wanted[1]) return gradients;
                 gradients[1] = autograd_.make(bytes);
                 if (sum_.buffer > 0)
                   const Tensors shared{autograd_.make(sum_.buffer), autograd_.make(sum_.locks)};
                 return gradients;
               });
}

Tensor LanguageModel::cross_entropy(const Tensor& logits) {
  const Amount bytes(sizes_.tokens * sizes_.vocabulary * 4, "wide"), one(4, "loss");
  const Tensor wide = sizes_.bf16 ? apply({logits}, {}, bytes, making(logits->bytes)) : logits;
  const auto softmax = autograd_.node({wide}, {}, making(bytes));
  const Tensor probabilities = result(softmax, autograd_.make(bytes));
  autograd_.save_output(*softmax, probabilities);
  const auto nll = autograd_.node({probabilities}, {probabilities}, making(bytes));
  Tensor loss = result(nll, autograd_.make(one));
  autograd_.save_output(*nll, autograd_.make(one));  // the weight of all tokens
  return loss;
}

std::vector<Amount> LanguageModel::block_parameters() const {
  const auto& s = sizes_;
  const auto row = s.hidden * s.element();
  const Amount f(s.ffn * row, "w_f"), n(row, "w_n"), q(s.hidden * row, "w_q"),
      k(s.hidden / s.heads * s.kv_heads * row, "w_k");
  if (!s.transformer) return {f, f};
  return {n, q, k, k, q, n, f, f, f};
}

Tensor LanguageModel::block(const Tensor& x, const Tensors& p) {
  const auto wide = tokens_by(sizes_.ffn, "f");
  if (!sizes_.transformer) {
    const Tensor inner = activation(linear(x, p[0], wide));
    return add(x, linear(inner, p[1], x->bytes));
  }
  Tensor n = norm(x, p[0]), q = linear(n, p[1], x->bytes), k = linear(n, p[2], attention_.keys),
         v = linear(n, p[3], attention_.keys);
  n.reset();
  if (attention_.repeats) {
    k = repeat(k, attention_);
    v = repeat(v, attention_);
  }
  Tensor attended = attention(q, k, v, attention_);
  for (Tensor* one : {&q, &k, &v}) one->reset();
  const Tensor y = add(x, linear(attended, p[4], x->bytes));
  attended.reset();
  const Tensor m = norm(y, p[5]);
  Tensor gate = activation(linear(m, p[6], wide)), up = linear(m, p[7], wide);
  Tensor both = multiply(gate, up);
  for (Tensor* one : {&gate, &up}) one->reset();
  const Tensor down = linear(both, p[8], x->bytes);
  both.reset();
  return add(y, down);
}

}  // namespace tidemark::zero_bubble_detach
