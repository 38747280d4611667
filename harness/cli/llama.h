// A Llama-shaped model written straight in ATen operators: what the benchmark drives through the
// allocator.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tidemark {

struct LlamaShape {
  std::int64_t layers, hidden, ffn, heads, kv_heads, vocabulary, sequence;
};
/// Llama 3 70B, https://arxiv.org/abs/2407.21783 table 3, one sequence of 4,096 tokens.
inline constexpr LlamaShape kLlama70B{80, 8192, 28672, 64, 8, 128256, 4096};

class Llama {
 public:
  explicit Llama(
      const LlamaShape& shape);  // bfloat16 parameters on the current CUDA device, not initialised
  /// Forward and backward; gradients are dropped at the end.
  void step();

 private:
  struct Block {
    at::Tensor q, k, v, o, gate, up, down, attention_norm, ffn_norm;
  };
  at::Tensor parameter(at::IntArrayRef sizes);
  at::Tensor attention(const Block& block, const at::Tensor& x) const;

  LlamaShape shape_;
  std::vector<at::Tensor> parameters_;
  std::vector<Block> blocks_;
  at::Tensor embedding_, output_, norm_;
};

}  // namespace tidemark
