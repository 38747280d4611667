#include <utility>

#include "cases/zero_bubble_detach/plan.h"

namespace tidemark::zero_bubble_detach {

Operators::Operators(Autograd& autograd, const Sizes& sizes, const reference::DeviceFacts& device)
    : autograd_(autograd),
      sizes_(sizes),
      workspace_bytes_(device.workspace_bytes),
      attention_(sizes.attention(device)),
      lookup_(sizes.lookup(device)),
      sum_(sizes.norm_weight_sum(device)) {}

Tensor Operators::result(const NodePointer& node, Tensor tensor) const {
  tensor->made_by = node;
  return tensor;
}

Tensor Operators::apply(const Tensors& inputs, const Tensors& saved, std::int64_t bytes,
                        Node::Backward backward) {
  const auto node = autograd_.node(inputs, saved, std::move(backward));
  return result(node, autograd_.make(bytes));
}

Node::Backward Operators::making(std::int64_t gradient, std::vector<std::int64_t> passing) {
  return [=, this](const Tensor&, const Tensors&, const auto&) {
    Tensors temporaries;
    for (const auto bytes : passing) temporaries.push_back(autograd_.make(bytes));
    return Tensors{autograd_.make(gradient)};
  };
}

// cuBLAS's workspace is made by a thread's first product, after its output.
Tensor Operators::product(std::int64_t bytes) {
  Tensor output = autograd_.make(bytes);
  Tensor& workspace = workspaces_[autograd_.running ? 1 : 0];
  if (!workspace) workspace = autograd_.make(workspace_bytes_);
  return output;
}

Tensor Operators::embedding(const Tensor& weight) {
  return apply({weight}, {}, activation_bytes(sizes_.hidden),
               [this, bytes = weight->bytes](const Tensor&, const Tensors&, const auto&) {
                 return Tensors{embedding_backward(bytes)};
               });
}

Tensor Operators::embedding_backward(std::int64_t bytes) {
  const auto& l = lookup_;
  if (!l.sorts) return autograd_.make(bytes);
  const Tensor sorted = autograd_.make(l.indices), order = autograd_.make(l.indices);
  { const Tensor range = autograd_.make(l.indices), sort = autograd_.make(l.sort); }
  Tensor gradient = autograd_.make(bytes);
  const Tensor starts = autograd_.make(l.indices), number = autograd_.make(8);
  { const Tensor keys = autograd_.make(l.indices), unique = autograd_.make(l.unique); }
  const Tensor counts = autograd_.make(l.rows), offsets = autograd_.make(l.rows);
  const Tensor total = autograd_.make(8), parts = autograd_.make(l.parts);
  const Tensor rows = l.atomic ? autograd_.make(l.parts) : nullptr, sums = autograd_.make(l.sums);
  return gradient;
}

Tensor Operators::rms_norm(const Tensor& x, const Tensor& weight) {
  if (sizes_.norms_in_floats) return norm_in_floats(x, weight);
  const auto node = autograd_.node({x, weight}, {x, weight},
                                   [this](const Tensor&, const Tensors& saved, const auto& wanted) {
                                     Tensors gradients(2);
                                     for (const std::size_t i : {0, 1})
                                       if (wanted[i])
                                         gradients[i] = autograd_.make(saved[i]->bytes);
                                     return gradients;
                                   });
  Tensor y = autograd_.make(x->bytes);
  autograd_.save_output(*node, autograd_.make(sizes_.tokens * 4));
  return result(node, std::move(y));
}

// The formulas of the backwards are those of tools/autograd/derivatives.yaml and
// torch/csrc/autograd/FunctionsManual.cpp.
Tensor Operators::norm_in_floats(const Tensor& x, const Tensor& weight) {
  const auto wide = sizes_.tokens * sizes_.hidden * 4, narrow = sizes_.tokens * 4;
  const Tensor y = apply({x}, {}, wide, making(x->bytes));
  Tensor next = apply({y}, {y}, wide, making(wide, {wide, wide}));  // grad * (2 * self.pow(1))
  next = apply({next}, {}, narrow, making(wide));                   // the mean
  next = apply({next}, {}, narrow, [](const Tensor& gradient, const Tensors&, const auto&) {
    return Tensors{gradient};
  });  // epsilon added

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

Tensor Operators::linear(const Tensor& x, const Tensor& weight, std::int64_t bytes) {
  const auto node = autograd_.node(
      {x, weight}, {x, weight}, [this](const Tensor&, const Tensors& saved, const auto& wanted) {
        Tensors gradients(2);
        for (const std::size_t i : {1, 0})  // the second factor's first
          if (wanted[i]) gradients[i] = product(saved[i]->bytes);
        return gradients;
      });
  return result(node, product(bytes));
}

Tensor Operators::add(const Tensor& a, const Tensor& b) {
  return apply({a, b}, {}, a->bytes, [](const Tensor& gradient, const Tensors&, const auto&) {
    return Tensors{gradient, gradient};
  });
}

Tensor Operators::multiply(const Tensor& a, const Tensor& b) {
  return apply({a, b}, {b, a}, a->bytes, [this](const Tensor&, const Tensors& saved, const auto&) {
    const Tensor second = autograd_.make(saved[1]->bytes);
    return Tensors{autograd_.make(saved[0]->bytes), second};
  });
}

Tensor Operators::activation(const Tensor& x) {
  return apply({x}, {x}, x->bytes, making(x->bytes));
}

Tensor Operators::repeat(const Tensor& x) {
  const auto node = autograd_.node({x}, {}, making(x->bytes));  // summed over the repeats
  return result(node, attention_.copies ? autograd_.make(attention_.queries) : alias(x));
}

Tensor Operators::attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto node = autograd_.node(
      {q, k, v}, {q, k, v},
      [this](const Tensor&, const Tensors&, const auto&) { return attention_backward(); });
  Tensor output = autograd_.make(attention_.queries);
  autograd_.save_output(*node, output);
  autograd_.save_output(*node, autograd_.make(attention_.statistics));
  if (sizes_.bf16) {
    const Tensors parts{autograd_.make(attention_.split_statistics),
                        autograd_.make(attention_.split_output)};
    // The dropout's state, used or not.
    for (const auto bytes : {16, 8}) autograd_.save_output(*node, autograd_.make(bytes));
  }
  return result(node, std::move(output));
}

Tensors Operators::attention_backward() {
  const auto& a = attention_;
  const auto keys = a.repeats ? a.queries : a.keys;
  const Tensor dq = autograd_.make(a.queries), dk = autograd_.make(keys), dv = autograd_.make(keys);
  if (sizes_.bf16) {
    const Tensor delta = autograd_.make(a.delta), sum = autograd_.make(a.workspace);
    Tensors whole;
    if (sizes_.heads != sizes_.kv_heads)
      whole = {autograd_.make(a.queries), autograd_.make(a.queries)};
  } else {
    Tensor products = autograd_.make(a.queries), delta = autograd_.make(a.delta);
    if (sizes_.heads > 1 && sizes_.sequence > 1) delta = autograd_.make(a.delta);  // by head
    products.reset();
    autograd_.make(a.workspace);
  }
  return {dq, dk, dv};
}

Tensor Operators::cross_entropy(const Tensor& logits) {
  const auto bytes = sizes_.tokens * sizes_.vocabulary * 4;
  const Tensor wide = sizes_.bf16 ? apply({logits}, {}, bytes, making(logits->bytes)) : logits;
  const auto softmax = autograd_.node({wide}, {}, making(bytes));
  const Tensor probabilities = result(softmax, autograd_.make(bytes));
  autograd_.save_output(*softmax, probabilities);
  const auto nll = autograd_.node({probabilities}, {probabilities}, making(bytes));
  Tensor loss = result(nll, autograd_.make(4));
  autograd_.save_output(*nll, autograd_.make(4));  // the weight of all tokens
  return loss;
}

std::vector<std::int64_t> Operators::block_parameters() const {
  const auto& s = sizes_;
  const auto h = s.hidden, kv = h / s.heads * s.kv_heads, f = s.ffn;
  if (!s.transformer) return {f * h * sizes_.element(), f * h * sizes_.element()};
  std::vector<std::int64_t> bytes{h, h * h, kv * h, kv * h, h * h, h, f * h, f * h, f * h};
  for (auto& b : bytes) b *= sizes_.element();
  return bytes;
}

Tensor Operators::block(const Tensor& x, const Tensors& p) {
  const auto wide = activation_bytes(sizes_.ffn);
  if (!sizes_.transformer) {
    const Tensor inner = activation(linear(x, p[0], wide));
    return add(x, linear(inner, p[1], x->bytes));
  }
  Tensor n = rms_norm(x, p[0]), q = linear(n, p[1], x->bytes), k = linear(n, p[2], attention_.keys),
         v = linear(n, p[3], attention_.keys);
  n.reset();
  if (attention_.repeats) {
    k = repeat(k);
    v = repeat(v);
  }
  Tensor attended = attention(q, k, v);
  for (Tensor* one : {&q, &k, &v}) one->reset();
  const Tensor y = add(x, linear(attended, p[4], x->bytes));
  attended.reset();
  const Tensor m = rms_norm(y, p[5]);
  Tensor gate = activation(linear(m, p[6], wide)), up = linear(m, p[7], wide);
  Tensor both = multiply(gate, up);
  for (Tensor* one : {&gate, &up}) one->reset();
  const Tensor down = linear(both, p[8], x->bytes);
  both.reset();
  return add(y, down);
}

}  // namespace tidemark::zero_bubble_detach
