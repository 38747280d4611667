// The blocks that pipelines are made of, as plain functions of their input: a transformer block as
// in Llama, and the MLP block of smaller studies. No biases, no dropout, so that a block run again
// computes the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tidemark::zero_bubble_detach {

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

struct TransformerShape {
  std::int64_t hidden = 0, ffn = 0;
  std::int64_t heads = 0,
               kv_heads = 0;  // heads share keys and values in groups of heads / kv_heads
  std::int64_t sequence = 0;  // tokens of one sequence; an input holds whole ones
  double epsilon = 1e-5;
  bool norms_in_floats = false;
};

/// RMSNorm over the last dimension of x [tokens, hidden]. `in_floats`: of half precision, written
/// out as torch.nn.RMSNorm computes it up to PyTorch 2.6, in single precision but for the product
/// with the weight.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon, bool in_floats);

/// attention_norm, wq, wk, wv, wo, ffn_norm, w1, w3, w2 of a transformer block, and their shapes
/// [out, in].
std::vector<NamedShape> transformer_parameters(const TransformerShape& shape);

/// x [tokens, hidden] -> x + wo attention(wq n, wk n, wv n), n = RMSNorm(x); then x + w2 (silu(w1
/// n)
/// * w3 n), n = RMSNorm(x). Attention is causal, over each sequence. Grouped heads go to the flash
/// kernel as they are (half precision); the others take keys and values repeated.
at::Tensor transformer_block(const at::Tensor& x, const std::vector<at::Tensor>& parameters,
                             const TransformerShape& shape);

/// fc1 [ffn, hidden] and fc2 [hidden, ffn].
std::vector<NamedShape> mlp_parameters(std::int64_t hidden, std::int64_t ffn);

/// x [tokens, hidden] -> x + fc2 gelu(fc1 x).
at::Tensor mlp_block(const at::Tensor& x, const std::vector<at::Tensor>& parameters);

}  // namespace tidemark::zero_bubble_detach
