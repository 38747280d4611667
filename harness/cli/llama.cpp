#include "harness/cli/llama.h"

#include <cmath>

namespace tidemark {
namespace {

constexpr std::int64_t kLayers = 80, kHidden = 8192, kFfn = 28672, kHeads = 64, kKvHeads = 8,
                       kVocabulary = 128256, kSequence = 4096, kWidth = kHidden / kHeads;

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
}

}  // namespace

Llama70B::Llama70B() {
  constexpr std::int64_t d = kHidden, kv = kWidth * kKvHeads;
  embedding_ = parameter({kVocabulary, d});
  output_ = parameter({kVocabulary, d});
  norm_ = parameter({d});
  for (std::int64_t i = 0; i < kLayers; ++i)
    blocks_.push_back({parameter({d, d}), parameter({kv, d}), parameter({kv, d}), parameter({d, d}),
                       parameter({kFfn, d}), parameter({kFfn, d}), parameter({d, kFfn}),
                       parameter({d}), parameter({d})});
}

at::Tensor Llama70B::parameter(at::IntArrayRef sizes) {
  auto tensor = at::empty(sizes, at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16));
  parameters_.push_back(tensor.requires_grad_(true));
  return parameters_.back();
}

at::Tensor Llama70B::attention(const Block& block, const at::Tensor& x) {
  const auto heads = [&x](const at::Tensor& weight, std::int64_t count) {
    return at::linear(x, weight).view({1, kSequence, count, kWidth}).transpose(1, 2);
  };
  constexpr std::int64_t kRepeat = kHeads / kKvHeads;
  at::Tensor q = heads(block.q, kHeads);
  at::Tensor k = heads(block.k, kKvHeads).repeat_interleave(kRepeat, 1);
  at::Tensor v = heads(block.v, kKvHeads).repeat_interleave(kRepeat, 1);
  at::Tensor scores = at::softmax(
      at::matmul(q, k.transpose(2, 3)) * (1 / std::sqrt(static_cast<double>(kWidth))), -1);
  return at::linear(at::matmul(scores, v).transpose(1, 2).reshape({1, kSequence, kHidden}),
                    block.o);
}

void Llama70B::step() {
  auto ids = at::empty({1, kSequence}, at::TensorOptions().device(at::kCUDA).dtype(at::kLong));
  auto targets = at::empty({kSequence}, ids.options());
  at::Tensor h = at::embedding(embedding_, ids);
  for (const auto& block : blocks_) {
    h = h + attention(block, rms_norm(h, block.attention_norm));
    at::Tensor x = rms_norm(h, block.ffn_norm);
    h = h + at::linear(at::silu(at::linear(x, block.gate)) * at::linear(x, block.up), block.down);
  }
  at::Tensor logits = at::linear(rms_norm(h, norm_), output_).view({kSequence, kVocabulary});
  at::cross_entropy_loss(logits, targets).backward();
  for (auto& each : parameters_) each.mutable_grad().reset();
}

}  // namespace tidemark
