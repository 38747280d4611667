#include "harness/cli/llama.h"

#include <ATen/ATen.h>

#include <cmath>

namespace tidemark {
namespace {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
}

}  // namespace

Llama::Llama(const LlamaShape& shape) : shape_(shape) {
  const auto d = shape.hidden, kv = shape.hidden / shape.heads * shape.kv_heads;
  embedding_ = parameter({shape.vocabulary, d});
  output_ = parameter({shape.vocabulary, d});
  norm_ = parameter({d});
  for (std::int64_t i = 0; i < shape.layers; ++i)
    blocks_.push_back({parameter({d, d}), parameter({kv, d}), parameter({kv, d}), parameter({d, d}),
                       parameter({shape.ffn, d}), parameter({shape.ffn, d}),
                       parameter({d, shape.ffn}), parameter({d}), parameter({d})});
}

at::Tensor Llama::parameter(at::IntArrayRef sizes) {
  auto tensor = at::empty(sizes, at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16));
  parameters_.push_back(tensor.requires_grad_(true));
  return parameters_.back();
}

at::Tensor Llama::attention(const Block& block, const at::Tensor& x) const {
  const auto s = shape_.sequence, width = shape_.hidden / shape_.heads;
  auto heads = [&](const at::Tensor& weight, std::int64_t count) {
    return at::linear(x, weight).view({1, s, count, width}).transpose(1, 2);
  };
  const auto repeat = shape_.heads / shape_.kv_heads;
  at::Tensor q = heads(block.q, shape_.heads);
  at::Tensor k = heads(block.k, shape_.kv_heads).repeat_interleave(repeat, 1);
  at::Tensor v = heads(block.v, shape_.kv_heads).repeat_interleave(repeat, 1);
  at::Tensor scores = at::softmax(
      at::matmul(q, k.transpose(2, 3)) * (1 / std::sqrt(static_cast<double>(width))), -1);
  return at::linear(at::matmul(scores, v).transpose(1, 2).reshape({1, s, shape_.hidden}), block.o);
}

void Llama::step() {
  auto ids =
      at::empty({1, shape_.sequence}, at::TensorOptions().device(at::kCUDA).dtype(at::kLong));
  auto targets = at::empty({shape_.sequence}, ids.options());
  at::Tensor h = at::embedding(embedding_, ids);
  for (const auto& block : blocks_) {
    h = h + attention(block, rms_norm(h, block.attention_norm));
    at::Tensor x = rms_norm(h, block.ffn_norm);
    h = h + at::linear(at::silu(at::linear(x, block.gate)) * at::linear(x, block.up), block.down);
  }
  at::Tensor logits =
      at::linear(rms_norm(h, norm_), output_).view({shape_.sequence, shape_.vocabulary});
  at::cross_entropy_loss(logits, targets).backward();
  for (auto& each : parameters_) each.mutable_grad().reset();
}

}  // namespace tidemark
