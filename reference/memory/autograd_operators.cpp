#include "reference/memory/autograd_operators.h"

#include <utility>

namespace tidemark::reference::autograd {

Tensor Operators::result(const NodePointer& node, Tensor tensor) const {
  tensor->made_by = node;
  return tensor;
}

Tensor Operators::apply(const Tensors& inputs, const Tensors& saved, const Amount& bytes,
                        Node::Backward backward) {
  const auto node = autograd_.node(inputs, saved, std::move(backward));
  return result(node, autograd_.make(bytes));
}

Node::Backward Operators::making(const Amount& gradient, std::vector<Amount> passing) {
  return [=, this](const Tensor&, const Tensors&, const auto&) {
    Tensors temporaries;
    for (const auto& bytes : passing) temporaries.push_back(autograd_.make(bytes));
    return Tensors{autograd_.make(gradient)};
  };
}

Node::Backward Operators::passing_on(std::size_t inputs) {
  return [=](const Tensor& gradient, const Tensors&, const auto&) {
    return Tensors(inputs, gradient);
  };
}

// cuBLAS's workspace is made by a thread's first product, after its output.
Tensor Operators::product(const Amount& bytes) {
  Tensor output = autograd_.make(bytes);
  Tensor& workspace = workspaces_[autograd_.running ? 1 : 0];
  if (!workspace) workspace = autograd_.make(workspace_bytes_);
  return output;
}

Tensor Operators::rms_norm(const Tensor& x, const Tensor& weight) {
  const auto node = autograd_.node({x, weight}, {x, weight},
                                   [this](const Tensor&, const Tensors& saved, const auto& wanted) {
                                     Tensors gradients(2);
                                     for (const std::size_t i : {0, 1})
                                       if (wanted[i])
                                         gradients[i] = autograd_.make(saved[i]->bytes);
                                     return gradients;
                                   });
  Tensor y = autograd_.make(x->bytes);
  autograd_.save_output(*node, autograd_.make({x->bytes / weight->bytes * 4, "s"}));
  return result(node, std::move(y));
}

Tensor Operators::linear(const Tensor& x, const Tensor& weight, const Amount& bytes) {
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
  return apply({a, b}, {}, a->bytes, passing_on(2));
}

Tensor Operators::multiply(const Tensor& a, const Tensor& b) {
  return apply({a, b}, {b, a}, a->bytes, [this](const Tensor&, const Tensors& saved, const auto&) {
    const Tensor second = autograd_.make(saved[1]->bytes);
    return Tensors{autograd_.make(saved[0]->bytes), second};
  });
}

Tensor Operators::repeat(const Tensor& x, const AttentionPlan& plan) {
  Tensor repeated = view(x);  // its gradient is summed over the repeats
  return plan.copies ? result(repeated->made_by, autograd_.make(plan.queries)) : repeated;
}

Tensor Operators::view(const Tensor& x) {
  return result(autograd_.node({x}, {}, making(x->bytes)), alias(x));
}

Tensors Operators::split(const Tensor& x, const std::vector<std::int64_t>& bytes) {
  const auto gradients = std::make_shared<Tensors>();  // of the parts
  const auto concatenated = [=, this, whole = x->bytes](const Tensor&, const Tensors&,
                                                        const auto&) {
    Tensors gradient{autograd_.make(whole)};
    gradients->clear();
    return gradient;
  };
  const Tensor joined = result(autograd_.node({x}, {}, concatenated), alias(x));
  Tensors parts;
  for (const auto part : bytes) {
    const auto node = autograd_.node(
        {joined}, {}, [gradients](const Tensor& gradient, const Tensors&, const auto&) {
          gradients->push_back(gradient);
          return Tensors(1);
        });
    parts.push_back(result(node, std::make_shared<TensorModel>(TensorModel{x->storage, part})));
  }
  return parts;
}

Tensor Operators::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionPlan& plan, int copies) {
  const auto node =
      autograd_.node({q, k, v}, {q, k, v}, [=, this](const Tensor&, const Tensors&, const auto&) {
        Tensors copied;
        for (int i = 0; i < copies; ++i) copied.push_back(autograd_.make(plan.queries));
        return attention_backward(plan);
      });
  Tensor output = autograd_.make(plan.queries);
  autograd_.save_output(*node, output);
  autograd_.save_output(*node, autograd_.make(plan.statistics));
  if (plan.shape.bf16) {
    const Tensors parts{autograd_.make(plan.split_statistics), autograd_.make(plan.split_output)};
    // The dropout's state, used or not.
    for (const Amount& state : {Amount(16, "random"), Amount(8, "offset")})
      autograd_.save_output(*node, autograd_.make(state));
  }
  return result(node, std::move(output));
}

Tensors Operators::attention_backward(const AttentionPlan& a) {
  const auto keys = a.repeats ? a.queries : a.keys;
  const Tensor dq = autograd_.make(a.queries), dk = autograd_.make(keys), dv = autograd_.make(keys);
  if (a.shape.bf16) {
    const Tensor delta = autograd_.make(a.delta), sum = autograd_.make(a.workspace);
    Tensors whole;
    if (a.shape.heads != a.shape.kv_heads)
      whole = {autograd_.make(a.queries), autograd_.make(a.queries)};
  } else {
    Tensor products = autograd_.make(a.queries), delta = autograd_.make(a.delta);
    if (a.shape.heads > 1 && a.shape.sequence > 1) delta = autograd_.make(a.delta);  // by head
    products.reset();
    autograd_.make(a.workspace);
  }
  return {dq, dk, dv};
}

}  // namespace tidemark::reference::autograd
