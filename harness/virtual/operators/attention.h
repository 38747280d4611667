// Scaled dot-product attention on the host, in the accumulation type. Shapes: batch B, heads H (of
// keys Hk, a divisor of H), queries S, keys T, head dimension D.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "harness/virtual/operators/random.h"

namespace tidemark::operators {

struct Attention {
  at::Tensor query, key, value;  // [B, H, S, D], [B, Hk, T, D], [B, Hk, T, Dv]
  at::Tensor bias = {};  // added to the scores; broadcasts to [B, H, S, T]; may be undefined
  double scale = 1;
  double dropout = 0;
  RandomState random = {};
  bool causal = false;
  std::int64_t diagonal = 0;                          // causal: query i sees keys j <= i + diagonal
  std::optional<std::int64_t> left = {}, right = {};  // window around the same diagonal
};

struct AttentionResult {
  at::Tensor output;     // [B, H, S, Dv]
  at::Tensor logsumexp;  // [B, H, S]; +inf where a query sees no key
};
struct AttentionGradients {
  at::Tensor query, key, value, bias;  // bias [B, H, S, T]
};

AttentionResult attention_forward(const Attention& a);
AttentionGradients attention_backward(const Attention& a, const at::Tensor& grad,
                                      const at::Tensor& output, const at::Tensor& logsumexp);

}  // namespace tidemark::operators
