// The part of the language model that a pipeline stage computes, as plain functions of its input:
// transformer blocks as in Llama, or the MLP blocks of smaller studies. No biases, no dropout, so
// that a block run again computes the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "cases/zero_bubble_detach/policy.h"

namespace tidemark::zero_bubble_detach {

struct ModelParameter {
  std::string name;                 // "fc" and "norm" in it choose the range of its first values
  std::vector<std::int64_t> shape;  // of a matrix [out, in]
  std::int64_t block = 0;
};

/// The parameters of a stage in the model's order: the embedding; of each block attention_norm, wq,
/// wk, wv, wo, ffn_norm, w1, w3, w2, or fc1 and fc2; norm and head.
std::vector<ModelParameter> parameters_of(const Sizes& sizes, const StagePlace& place);

/// Tokens, or x [tokens, hidden], -> x after the stage's blocks, or the last stage's logits.
///
/// Transformer: x + wo attention(wq n, wk n, wv n), n = norm(x); then x + w2 (silu(w1 n) * w3 n), n
/// = norm(x). Attention is causal, over each sequence. Grouped heads go to the flash kernel as they
/// are (half precision); the others take keys and values repeated. MLP: x + fc2 gelu(fc1 x). Norms
/// in floats are written out as torch.nn.RMSNorm computes them up to PyTorch 2.6, in single
/// precision but for the product with the weight.
at::Tensor stage_forward(const Sizes& sizes, const StagePlace& place,
                         const std::vector<at::Tensor>& parameters, const at::Tensor& input);

}  // namespace tidemark::zero_bubble_detach
