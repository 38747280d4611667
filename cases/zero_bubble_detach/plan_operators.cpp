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

// cuBLAS's workspace is made by a thread's first product, after its output.
Tensor Operators::product(std::int64_t bytes) {
  Tensor output = autograd_.make(bytes);
  Tensor& workspace = workspaces_[autograd_.running ? 1 : 0];
  if (!workspace) workspace = autograd_.make(workspace_bytes_);
  return output;
}

Tensor Operators::embedding(const Tensor& weight) {
  const auto node = autograd_.node(
      {weight}, {}, [this, bytes = weight->bytes](Node&, const Tensor&, const auto&) {
        return Tensors{embedding_backward(bytes)};
      });
  return result(node, autograd_.make(activation_bytes(sizes_.hidden)));
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
                                   [this](Node& self, const Tensor&, const auto& wanted) {
                                     const Tensors saved = Autograd::unpack(self);
                                     Tensors gradients(2);
                                     for (std::size_t i = 0; i < 2; ++i)
                                       if (wanted[i])
                                         gradients[i] = autograd_.make(saved[i]->bytes);
                                     return gradients;
                                   });
  Tensor y = autograd_.make(x->bytes);
  autograd_.save_output(*node, autograd_.make(sizes_.tokens * 4));
  return result(node, std::move(y));
}

Tensor Operators::linear(const Tensor& x, const Tensor& weight, std::int64_t bytes) {
  const auto node = autograd_.node(
      {x, weight}, {x, weight}, [this](Node& self, const Tensor&, const auto& wanted) {
        const Tensors saved = Autograd::unpack(self);
        Tensors gradients(2);
        for (const std::size_t i : {1, 0})  // the second factor's first
          if (wanted[i]) gradients[i] = product(saved[i]->bytes);
        return gradients;
      });
  return result(node, product(bytes));
}

Tensor Operators::add(const Tensor& a, const Tensor& b) {
  const auto node = autograd_.node({a, b}, {}, [](Node&, const Tensor& gradient, const auto&) {
    return Tensors{gradient, gradient};
  });
  return result(node, autograd_.make(a->bytes));
}

Tensor Operators::multiply(const Tensor& a, const Tensor& b) {
  const auto node = autograd_.node({a, b}, {b, a}, [this](Node& self, const Tensor&, const auto&) {
    const Tensors saved = Autograd::unpack(self);
    const Tensor second = autograd_.make(saved[1]->bytes);
    return Tensors{autograd_.make(saved[0]->bytes), second};
  });
  return result(node, autograd_.make(a->bytes));
}

Tensor Operators::activation(const Tensor& x) {
  const auto node = autograd_.node({x}, {x}, [this](Node& self, const Tensor&, const auto&) {
    return Tensors{autograd_.make(Autograd::unpack(self)[0]->bytes)};
  });
  return result(node, autograd_.make(x->bytes));
}

Tensor Operators::repeat(const Tensor& x) {
  const auto node =
      autograd_.node({x}, {}, [this, bytes = x->bytes](Node&, const Tensor&, const auto&) {
        return Tensors{autograd_.make(bytes)};  // summed over the repeats
      });
  return result(node, attention_.copies ? autograd_.make(attention_.queries) : alias(x));
}

Tensor Operators::attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto node =
      autograd_.node({q, k, v}, {q, k, v}, [this](Node& self, const Tensor&, const auto&) {
        const Tensors saved = Autograd::unpack(self);
        return attention_backward();
      });
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
  const auto making = [this](std::int64_t size) {
    return
        [this, size](Node&, const Tensor&, const auto&) { return Tensors{autograd_.make(size)}; };
  };
  Tensor wide = logits;
  if (sizes_.bf16) {
    const auto node = autograd_.node({logits}, {}, making(logits->bytes));
    wide = result(node, autograd_.make(bytes));
  }
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
