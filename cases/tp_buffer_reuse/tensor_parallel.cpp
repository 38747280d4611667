#include "cases/tp_buffer_reuse/tensor_parallel.h"

#include <ATen/ATen.h>

#include "harness/measure/recorder.h"

namespace tidemark::tp_buffer_reuse {
namespace {

constexpr const char* kInput = "all-gather";
constexpr const char* kGradient = "all-gather of gradients";
constexpr const char* kReduced = "reduce-scatter";

at::Tensor fresh(std::int64_t rows, const at::Tensor& like) {
  return at::empty({rows, like.size(1)}, like.options().requires_grad(false));
}

}  // namespace

TensorParallel::TensorParallel(Communicator* communicator, GatherPolicy policy)
    : communicator_(communicator), policy_(policy) {}

at::Tensor TensorParallel::buffer(const char* name, std::int64_t rows, std::int64_t features,
                                  at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const auto numel = rows * features;
  auto& buffer = buffers_[name];
  if (!buffer.defined() || buffer.numel() < numel) {
    const CategoryScope category(MemoryKind::persistent_buffers);
    buffer.reset();
    buffer = at::empty({numel}, at::TensorOptions().dtype(type).device(at::kCUDA));
  }
  TORCH_CHECK(buffer.scalar_type() == type, "the persistent buffer '", name, "' holds ",
              buffer.scalar_type(), ", not ", type, "; name another");
  // Detached: no view for autograd to follow, but the version counter stays shared.
  return buffer.narrow(0, 0, numel).view({rows, features}).detach();
}

void TensorParallel::warm_up(std::int64_t rows, std::int64_t features, at::ScalarType type) {
  if (ranks() == 1 || policy_ == GatherPolicy::separate || policy_ == GatherPolicy::cached) return;
  if (policy_ == GatherPolicy::asynchronous) buffer(kGradient, rows, features, type);
  buffer(kInput, rows, features, type);
  if (policy_ == GatherPolicy::aliased_by_name) buffer(kReduced, rows / ranks(), features, type);
}

at::Tensor TensorParallel::gathered_output(std::int64_t rows, const at::Tensor& like) {
  if (policy_ == GatherPolicy::aliased || policy_ == GatherPolicy::aliased_by_name)
    return input_buffer(rows, like);
  const CategoryScope category(MemoryKind::gathered_activations);
  return fresh(rows, like);
}

at::Tensor TensorParallel::reduced_output(std::int64_t rows, const at::Tensor& like) {
  if (policy_ == GatherPolicy::aliased) return input_buffer(rows, like);
  if (policy_ == GatherPolicy::aliased_by_name) return buffer(kReduced, rows, like);
  const CategoryScope category(MemoryKind::activations);
  return fresh(rows, like);
}

at::Tensor TensorParallel::input_buffer(std::int64_t rows, const at::Tensor& like) {
  return buffer(kInput, rows, like);
}

at::Tensor TensorParallel::gradient_buffer(std::int64_t rows, const at::Tensor& like) {
  return buffer(policy_ == GatherPolicy::shared ? kInput : kGradient, rows, like);
}

at::Tensor TensorParallel::gather(const at::Tensor& shard) {
  const auto output = gathered_output(shard.size(0) * ranks(), shard);
  communicator_->all_gather_into(output, shard.contiguous(), {});
  return output;
}

at::Tensor TensorParallel::reduce_scatter(const at::Tensor& whole) {
  const auto output = reduced_output(whole.size(0) / ranks(), whole);
  communicator_->reduce_scatter_into(output, whole.contiguous(), Reduction::sum, {});
  return output;
}

}  // namespace tidemark::tp_buffer_reuse
