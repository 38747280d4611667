// What PyTorch's operators of the model of language_model.h allocate, save and compute in backward,
// in the order in which they do it, on the model of autograd. Sizes come with the tensors: an
// activation has as many bytes as its elements.
#pragma once

#include <functional>

#include "reference/language_model_plan.h"
#include "reference/lookup_plan.h"
#include "reference/memory/attention_plan.h"
#include "reference/memory/autograd_model.h"
#include "reference/memory/replay.h"

namespace tidemark::reference::autograd {

class Operators {
 public:
  Operators(Autograd& autograd, const MicrobatchShape& shape, const DeviceFacts& device);

  Tensor embedding(const Tensor& weight);
  Tensor rms_norm(const Tensor& x, const Tensor& weight);
  /// x [tokens, in] times weight [out, in]; `bytes` of the result.
  Tensor linear(const Tensor& x, const Tensor& weight, std::int64_t bytes);
  Tensor add(const Tensor& a, const Tensor& b);
  Tensor multiply(const Tensor& a, const Tensor& b);
  /// silu or gelu
  Tensor activation(const Tensor& x);
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v);
  /// Mean cross entropy of logits that become single precision first.
  Tensor cross_entropy(const Tensor& logits);

  /// One block, and its parameters in bytes.
  Tensor block(const Tensor& x, const Tensors& parameters);
  std::vector<std::int64_t> block_parameters() const;

  std::int64_t activation_bytes(std::int64_t width) const {
    return shape_.tokens * width * element_;
  }

 private:
  Tensor result(const NodePointer& node, Tensor tensor) const;
  Tensor product(std::int64_t bytes);
  /// Keys or values, for every head of the queries.
  Tensor repeat(const Tensor& x);
  Tensors attention_backward();
  Tensor embedding_backward(std::int64_t bytes);

  Autograd& autograd_;
  const MicrobatchShape shape_;
  const std::int64_t workspace_bytes_;
  const std::int64_t element_;
  const AttentionPlan sizes_;
  const LookupPlan lookup_;
  Tensor workspaces_[2];  // of cuBLAS, for the program's thread and the engine's
};

}  // namespace tidemark::reference::autograd
