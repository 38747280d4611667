// SwiGLU: silu(gate) * up, both halves of one matrix.
#pragma once

#include <ATen/core/Tensor.h>

namespace tidemark::tp_buffer_reuse {

/// merged [rows, 2 n] = (gate | up) -> [rows, n]. Autograd saves both factors: silu(gate) beside
/// `merged`.
at::Tensor swiglu(const at::Tensor& merged);
/// Computes the same numbers in one Function that saves `merged` alone. Its backward computes
/// silu(gate) again and needs no memory but its result.
at::Tensor fused_swiglu(const at::Tensor& merged);

}  // namespace tidemark::tp_buffer_reuse
