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

/// Sequences of different lengths, end to end in one batch: sequence i has the queries from
/// begins_q[i] to begins_q[i + 1], and the keys likewise (int32 [sequences + 1]).
struct Packed {
  Attention all;  // B = 1, S and T of all sequences together
  at::Tensor begins_q, begins_k;
  bool to_the_end = false;  // the diagonal of each sequence: its last query sees its last key
};
/// logsumexp has these sizes: [H, S], or [sequences, H, longest] with +inf behind each sequence.
AttentionResult attention_forward(const Packed& packed, at::IntArrayRef logsumexp_sizes);
AttentionGradients attention_backward(const Packed& packed, const at::Tensor& grad,
                                      const at::Tensor& output, const at::Tensor& logsumexp);

}  // namespace tidemark::operators
