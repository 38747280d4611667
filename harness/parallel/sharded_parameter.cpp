#include "harness/parallel/sharded_parameter.h"

#include <ATen/ATen.h>
#include <ATen/native/cuda/Resize.h>

#include <algorithm>
#include <iterator>

namespace tidemark {
namespace {

std::int64_t numel(const ParameterShape& shape) { return c10::multiply_integers(shape.size); }

std::int64_t numel(const std::vector<ParameterShape>& shapes) {
  std::int64_t all = 0;
  for (const auto& shape : shapes) all += numel(shape);
  return all;
}

}  // namespace

ShardedParameter::ShardedParameter(const std::vector<ParameterShape>& weights,
                                   at::ScalarType stored, at::ScalarType gathered, int rank,
                                   int ranks)
    : ShardedParameter(ParameterShape{"", {numel(weights)}}, stored, gathered, rank, ranks) {
  weights_ = weights;
  shard_ = padded_;
}

ShardedParameter::ShardedParameter(ParameterShape shape, at::ScalarType stored,
                                   at::ScalarType gathered, int rank, int ranks)
    : shape_(std::move(shape)), gathered_type_(gathered), ranks_(ranks) {
  const auto rows = shape_.size.at(0);
  const auto padded_rows = (rows + ranks - 1) / ranks;
  auto size = shape_.size;
  size[0] = padded_rows;
  const auto padded = at::zeros(size, at::TensorOptions().dtype(stored).device(at::kCUDA));
  const auto first = std::min(rows, rank * padded_rows);
  const auto mine = std::clamp<std::int64_t>(rows - rank * padded_rows, 0, padded_rows);
  shard_ = padded.narrow(0, 0, mine);
  padded_ = padded.view(-1);
  offset_ = padded_rows > 0 ? first * (padded.numel() / padded_rows) : 0;
}

std::vector<Shard> ShardedParameter::weights(const at::Tensor& values) const {
  if (weights_.empty()) return {{shape_.name, offset_, values}};
  std::vector<Shard> all;
  std::int64_t begin = 0;  // of the weight, in the flat whole
  for (const auto& weight : weights_) {
    const auto end = begin + numel(weight);
    const auto first = std::clamp(offset_, begin, end),
               last = std::clamp(offset_ + values.numel(), begin, end);
    const auto at = std::clamp<std::int64_t>(first - offset_, 0, values.numel());
    all.push_back({weight.name, first - begin, values.narrow(0, at, last - first)});
    begin = end;
  }
  return all;
}

std::vector<at::Tensor> ShardedParameter::views() const {
  std::vector<std::int64_t> sizes;
  for (const auto& weight : weights_) sizes.push_back(numel(weight));
  auto all = whole_.split_with_sizes(sizes);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i].view(weights_[i].size);
  return all;
}

bool ShardedParameter::unsharded() const {
  return gathered_.defined() && gathered_.storage().nbytes() != 0;
}

at::Tensor ShardedParameter::take() {
  if (!gathered_.defined()) {
    gathered_ = at::empty({padded_.numel() * ranks_},
                          at::TensorOptions().dtype(gathered_type_).device(at::kCUDA));
    std::vector<std::int64_t> stride(shape_.size.size(), 1);
    for (auto i = stride.size() - 1; i > 0; --i) stride[i - 1] = stride[i] * shape_.size[i];
    whole_ = gathered_.as_strided(shape_.size, stride, 0).detach().requires_grad_(!frozen_);
  } else if (!unsharded()) {
    at::native::resize_bytes_cuda(
        gathered_.storage().unsafeGetStorageImpl(),
        static_cast<std::size_t>(gathered_.numel()) * gathered_.element_size());
  }
  return gathered_.variable_data();  // a version counter of its own
}

void ShardedParameter::freeze(bool frozen) {
  frozen_ = frozen;
  if (whole_.defined()) whole_.requires_grad_(!frozen);
}

void ShardedParameter::give_back() {
  if (unsharded()) at::native::resize_bytes_cuda(gathered_.storage().unsafeGetStorageImpl(), 0);
}

void ShardedParameter::add_to_gradient(const at::Tensor& more) {
  if (gradient.defined())
    gradient += more;
  else
    gradient = more;
}

std::vector<Shard> shards_of(const std::vector<ShardedParameter*>& parameters) {
  std::vector<Shard> all;
  for (const auto* p : parameters)
    std::ranges::move(p->weights(p->shard()), std::back_inserter(all));
  return all;
}

std::vector<Shard> gradients_of(const std::vector<ShardedParameter*>& parameters) {
  std::vector<Shard> all;
  for (const auto* p : parameters) {
    if (!p->gradient.defined()) continue;
    std::ranges::move(p->weights(p->gradient), std::back_inserter(all));
  }
  return all;
}

void adam_step(Adam& adam, const std::vector<ShardedParameter*>& parameters) {
  std::vector<at::Tensor> shards, gradients;
  for (const auto* p : parameters) {
    if (!p->gradient.defined()) continue;
    shards.push_back(p->shard());
    gradients.push_back(p->gradient);
  }
  adam.step(shards, gradients);
}

}  // namespace tidemark
