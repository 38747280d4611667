// Convolutions by their shapes: the rules that cuDNN checks, cost, and workspace.
#pragma once

#include <optional>
#include <vector>

#include "harness/virtual/cudnn/cudnn.h"

namespace tidemark::cudnn {

/// Sizes are N, C, then the spatial ones. Strides in elements.
struct Tensor {
  int type = f32;
  std::vector<std::int64_t> sizes, strides;

  std::int64_t elements() const;
  std::size_t bytes() const;
  /// Channels are next to each other in memory.
  bool channels_last() const;
};

enum class Direction { forward, backward_data, backward_filter };

struct Convolution {
  Direction direction = Direction::forward;
  Tensor x, w, y;  // of backward the gradients in their places
  std::vector<std::int64_t> before, after, strides, dilations;

  std::int64_t groups() const { return x.sizes[1] / w.sizes[1]; }
};

/// Returns the mistake in the shapes, in words; nothing if all is right.
std::optional<std::string> mistake_in(const Convolution& c);
/// True if the tensor cores of this GPU compute it: fp16 from 7.0 on, bf16 and TF32 from 8.0 on.
bool on_tensor_cores(const Convolution& c, int capability);
/// True if this GPU computes it without tensor cores.
bool without_tensor_cores(const Convolution& c);
device::Cost cost_of(const Convolution& c, bool tensor_cores);

/// Tensor cores read and write channels next to each other. A tensor of another layout is
/// transformed in the workspace first, with channels up to a multiple of 16 bytes (NVIDIA's Deep
/// Learning Performance guide, "Convolutional Layers", 2.2 and 3): the operands, and on Blackwell
/// the result too; then 512 bytes more. Recorded for fp32, N 2, C 64, 128 x 128, K 64, 3 x 3,
/// contiguous, padding 1, forward: 8,536,576 bytes on Ampere, 16,925,184 on Blackwell. Both
/// follow from this rule to the byte; no other workspace of these two is known. Without tensor
/// cores the implicit product has no workspace (cuDNN's
/// CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM).
///
/// Hopper's was recorded (README.md, "cuDNN"): all three tensors transformed and 16 bytes; nothing
/// where a filter of one element makes it a product of matrices with aligned rows, where each
/// channel has its own filter, and for fewer than eight channels (fp32, or forward). Of tensors
/// whose channels are together, only those whose channels are no multiple of 16 bytes.
std::size_t workspace_of(const Convolution& c, bool tensor_cores, int capability);

}  // namespace tidemark::cudnn
