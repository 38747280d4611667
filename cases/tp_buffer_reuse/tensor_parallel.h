// Tensor parallelism with sequence parallelism: activations between the products are sharded along
// the sequence, weights along their features. A column linear gathers the sequence and multiplies
// by some of the output features; a row linear multiplies by some of the input features and
// reduce-scatters along the sequence. All tensors are matrices; a row is a token, the sequence is
// the slower index of the rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

#include "cases/tp_buffer_reuse/gather_policy.h"
#include "harness/parallel/communicator.h"

namespace tidemark::tp_buffer_reuse {

class TensorParallel {
 public:
  /// `communicator` is null on one rank, and must outlive this and every graph made with it.
  TensorParallel(Communicator* communicator, GatherPolicy policy);

  int ranks() const { return communicator_ ? communicator_->size() : 1; }
  int rank() const { return communicator_ ? communicator_->rank() : 0; }
  GatherPolicy policy() const { return policy_; }

  /// Makes the policy's persistent buffers, for gathered activations of this size.
  void warm_up(std::int64_t rows, std::int64_t features, at::ScalarType type);

  /// x [rows / ranks, in], weight [out / ranks, in] -> [rows, out / ranks].
  at::Tensor column_linear(const at::Tensor& x, const at::Tensor& weight);
  /// x [rows, in / ranks], weight [in / ranks, out] -> [rows / ranks, out], summed over the ranks.
  /// The weight lies input first, so that a rank's part of the whole is contiguous.
  at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight);

  // For the autograd Functions. Outputs are the policy's: fresh, or from a buffer.

  /// [rows, n] -> [rows * ranks, n], on the current stream.
  at::Tensor gather(const at::Tensor& shard);
  /// [rows, n] -> [rows / ranks, n], likewise.
  at::Tensor reduce_scatter(const at::Tensor& whole);
  /// Memory for an all-gather's output, and for a reduce-scatter's.
  at::Tensor gathered_output(std::int64_t rows, const at::Tensor& like);
  at::Tensor reduced_output(std::int64_t rows, const at::Tensor& like);
  /// The persistent buffer of a column linear's gathered input.
  at::Tensor input_buffer(std::int64_t rows, const at::Tensor& like);
  /// The persistent buffer of a row linear's gathered gradient (asynchronous policies).
  at::Tensor gradient_buffer(std::int64_t rows, const at::Tensor& like);
  Communicator& communicator() { return *communicator_; }

 private:
  /// The first elements of a persistent buffer, which is made once, used again and again, and never
  /// freed between steps; it grows to the largest that was asked for. All that share a name share
  /// memory and version counter, and one element type. A program that hands one out as if it were a
  /// fresh tensor aliases it.
  at::Tensor buffer(const char* name, std::int64_t rows, std::int64_t features,
                    at::ScalarType type);
  at::Tensor buffer(const char* name, std::int64_t rows, const at::Tensor& like) {
    return buffer(name, rows, like.size(1), like.scalar_type());
  }

  Communicator* communicator_;
  GatherPolicy policy_;
  std::map<std::string, at::Tensor> buffers_;
};

}  // namespace tidemark::tp_buffer_reuse
