// A Llama-shaped model written straight in ATen operators: Llama 3 70B,
// https://arxiv.org/abs/2407.21783 table 3, on one sequence of 4,096 tokens.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace tidemark {

class Llama70B {
 public:
  /// bfloat16 parameters on the current CUDA device, not initialised.
  Llama70B();
  /// Forward and backward; gradients are dropped at the end.
  void step();

 private:
  struct Block {
    at::Tensor q, k, v, o, gate, up, down, attention_norm, ffn_norm;
  };
  at::Tensor parameter(at::IntArrayRef sizes);
  static at::Tensor attention(const Block& block, const at::Tensor& x);

  std::vector<at::Tensor> parameters_;
  std::vector<Block> blocks_;
  at::Tensor embedding_, output_, norm_;
};

}  // namespace tidemark
