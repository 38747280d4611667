// PyTorch's operators on the model of autograd.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/memory/autograd_model.h"
#include "reference/memory/kernels.h"

namespace tidemark::reference::autograd {

/// Allocations, saved tensors and backward of PyTorch's operators, in the order in which PyTorch
/// makes them. Tensors have sizes: an activation has as many bytes as its elements.
class Operators {
 public:
  Operators(Autograd& autograd, const DeviceFacts& device)
      : autograd_(autograd), workspace_bytes_(device.workspace_bytes, "workspace") {}

  /// x [rows, columns], weight [columns] of the same type; one fused operator.
  Tensor rms_norm(const Tensor& x, const Tensor& weight);
  /// The product of x and weight; `bytes` of the result.
  Tensor linear(const Tensor& x, const Tensor& weight, const Amount& bytes);
  Tensor add(const Tensor& a, const Tensor& b);
  Tensor multiply(const Tensor& a, const Tensor& b);
  /// silu or gelu
  Tensor activation(const Tensor& x) { return apply({x}, {x}, x->bytes, making(x->bytes)); }
  /// Scaled dot product. `copies`: of the gradient and others, which backward makes first.
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan,
                   int copies = 0);
  /// Keys or values, for every head of the queries.
  Tensor repeat(const Tensor& x, const AttentionPlan& plan);
  /// A view whose gradient is copied.
  Tensor view(const Tensor& x);
  /// Views of parts of x, of so many bytes. Their gradients are concatenated.
  Tensors split(const Tensor& x, const std::vector<std::int64_t>& bytes);

  // For other operators.

  Tensor result(const NodePointer& node, Tensor tensor) const;
  /// The output, of `bytes`, of an operator.
  Tensor apply(const Tensors& inputs, const Tensors& saved, const Amount& bytes,
               Node::Backward backward);
  /// The backward of an operator with one input: temporaries, then the input's gradient.
  Node::Backward making(const Amount& gradient, std::vector<Amount> passing = {});
  /// The backward of an operator with so many inputs, all of which get the output's gradient.
  static Node::Backward passing_on(std::size_t inputs = 1);
  /// The output of a product.
  Tensor product(const Amount& bytes);

 protected:
  Autograd& autograd_;

 private:
  Tensors attention_backward(const AttentionPlan& a);

  const Amount workspace_bytes_;
  Tensor workspaces_[2];  // of cuBLAS, for the program's thread and the engine's
};

}  // namespace tidemark::reference::autograd
