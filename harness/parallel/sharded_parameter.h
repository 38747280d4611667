// One parameter, sharded along its first dimension: every rank keeps ceil(rows / ranks) rows (the
// last ones padding), and the whole exists only while it is unsharded. Its storage is then taken
// and given back under the same tensor, so that what autograd has saved of it stays valid (as
// PyTorch's FSDP2 does).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/parallel/adam.h"
#include "harness/scenario.h"

namespace tidemark {

struct ParameterShape {
  std::string name;
  std::vector<std::int64_t> size;
};

class ShardedParameter {
 public:
  /// `stored`: element type of the shard; `gathered`: of the whole while it is unsharded.
  ShardedParameter(ParameterShape shape, at::ScalarType stored, at::ScalarType gathered, int rank,
                   int ranks);

  /// Several in one: the whole is flat, its rows are elements, and the shard has its padding.
  ShardedParameter(const std::vector<ParameterShape>& weights, at::ScalarType stored,
                   at::ScalarType gathered, int rank, int ranks);

  /// This rank's rows; may be empty where there are fewer rows than ranks.
  const at::Tensor& shard() const { return shard_; }
  /// The part of each weight in the shard, or in a gradient of its shape. There is one weight,
  /// unless this parameter is several in one. Offsets are in elements of the flattened weight.
  std::vector<Shard> weights(const at::Tensor& values) const;
  /// The tensor that is sent: the padded shard, flat.
  const at::Tensor& padded_shard() const { return padded_; }
  /// Rows of a shard before padding ends, the same on every rank, times the row length.
  std::int64_t padded_numel() const { return padded_.numel(); }

  /// The whole, a leaf for autograd. Its memory exists between take() and give_back(); reading it
  /// otherwise throws.
  const at::Tensor& whole() const { return whole_; }
  /// The weights of a parameter that is several in one, made anew, as autograd's views of the
  /// whole.
  std::vector<at::Tensor> views() const;
  bool unsharded() const;
  /// Memory for the whole (padding included), flat, to be filled. Writing it does not count as a
  /// change to autograd.
  at::Tensor take();
  void give_back();

  /// True if autograd computes a gradient of the whole; a frozen parameter has none. Between steps.
  void freeze(bool frozen);

  /// The gradient of the shard, after backward; undefined before.
  at::Tensor gradient;
  void add_to_gradient(const at::Tensor& more);

 private:
  ParameterShape shape_;
  std::vector<ParameterShape> weights_;  // of several in one
  at::ScalarType gathered_type_;
  int ranks_;
  bool frozen_ = false;
  std::int64_t offset_ = 0;
  at::Tensor padded_, shard_;
  at::Tensor gathered_;  // flat, padded; its storage comes and goes
  at::Tensor whole_;     // the leading part of gathered_, in shape
};

/// This rank's part of them.
std::vector<Shard> shards_of(const std::vector<ShardedParameter*>& parameters);
/// The gradients of the parameters that have one.
std::vector<Shard> gradients_of(const std::vector<ShardedParameter*>& parameters);
/// One step of Adam for the parameters that have a gradient.
void adam_step(Adam& adam, const std::vector<ShardedParameter*>& parameters);

}  // namespace tidemark
