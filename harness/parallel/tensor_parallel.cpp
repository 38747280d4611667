#include "harness/parallel/tensor_parallel.h"

#include <ATen/ATen.h>

#include "harness/measure/recorder.h"
#include "harness/parallel/tensor_parallel_functions.h"

namespace tidemark {
namespace {

constexpr const char* kInput = "all-gather";
constexpr const char* kGradient = "all-gather of gradients";
constexpr const char* kReduced = "reduce-scatter";

at::Tensor fresh(std::int64_t rows, const at::Tensor& like) {
  return at::empty({rows, like.size(1)}, like.options().requires_grad(false));
}

}  // namespace

at::Tensor MemoryBuffers::get(const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const auto numel = c10::multiply_integers(sizes);
  auto& buffer = buffers_[name];
  if (!buffer.defined() || buffer.numel() < numel) {
    const CategoryScope category("persistent buffers");
    buffer.reset();
    buffer = at::empty({numel}, at::TensorOptions().dtype(type).device(at::kCUDA));
  }
  TORCH_CHECK(buffer.scalar_type() == type, "the persistent buffer '", name, "' holds ",
              buffer.scalar_type(), ", not ", type, "; name another");
  // Detached: no view for autograd to follow, but the version counter stays shared.
  return buffer.narrow(0, 0, numel).view(sizes).detach();
}

TensorParallel::TensorParallel(Communicator* communicator, GatherPolicy policy)
    : communicator_(communicator), policy_(policy) {}

void TensorParallel::warm_up(std::int64_t rows, std::int64_t features, at::ScalarType type) {
  if (ranks() == 1) return;
  switch (policy_) {
    case GatherPolicy::separate:
    case GatherPolicy::cached:
      break;
    case GatherPolicy::asynchronous:
      buffers_.get(kGradient, {rows, features}, type);
      [[fallthrough]];
    case GatherPolicy::recomputed:
    case GatherPolicy::shared:
    case GatherPolicy::aliased:
      buffers_.get(kInput, {rows, features}, type);
      break;
    case GatherPolicy::aliased_by_name:
      buffers_.get(kInput, {rows, features}, type);
      buffers_.get(kReduced, {rows / ranks(), features}, type);
      break;
  }
}

at::Tensor TensorParallel::output(const char* operation, std::int64_t rows,
                                  const at::Tensor& like) {
  const bool gathers = operation == kAllGather;
  switch (policy_) {
    case GatherPolicy::aliased:
      return buffers_.get(kInput, {rows, like.size(1)}, like.scalar_type());
    case GatherPolicy::aliased_by_name:
      return buffers_.get(gathers ? kInput : kReduced, {rows, like.size(1)}, like.scalar_type());
    default: {
      const CategoryScope category(gathers ? "gathered" : "activations");
      return fresh(rows, like);
    }
  }
}

at::Tensor TensorParallel::input_buffer(std::int64_t rows, const at::Tensor& like) {
  return buffers_.get(kInput, {rows, like.size(1)}, like.scalar_type());
}

at::Tensor TensorParallel::gradient_buffer(std::int64_t rows, const at::Tensor& like) {
  return buffers_.get(policy_ == GatherPolicy::shared ? kInput : kGradient, {rows, like.size(1)},
                      like.scalar_type());
}

at::Tensor TensorParallel::gather(const at::Tensor& shard, const at::Tensor& output) {
  communicator_->all_gather_into(output, shard.contiguous(), {});
  return output;
}

at::Tensor TensorParallel::reduce_scatter(const at::Tensor& whole, const at::Tensor& output) {
  communicator_->reduce_scatter_into(output, whole.contiguous(), Reduction::sum, {});
  return output;
}

at::Tensor TensorParallel::column_linear(const at::Tensor& x, const at::Tensor& weight) {
  if (ranks() == 1) return at::mm(x, weight.t());
  switch (policy_) {
    case GatherPolicy::cached:
    case GatherPolicy::recomputed:
      return column_linear_function(x, weight, *this);
    case GatherPolicy::asynchronous:
    case GatherPolicy::shared:
      return async_column_linear_function(x, weight, *this);
    default: {
      const auto total = all_gather_function(x, *this);  // before the transpose, as linear has it
      return at::mm(total, weight.t());
    }
  }
}

at::Tensor TensorParallel::row_linear(const at::Tensor& x, const at::Tensor& weight) {
  if (ranks() == 1) return at::mm(x, weight);
  if (policy_ == GatherPolicy::asynchronous || policy_ == GatherPolicy::shared) {
    return async_row_linear_function(x, weight, *this);
  }
  return reduce_scatter_function(at::mm(x, weight), *this);
}

}  // namespace tidemark
