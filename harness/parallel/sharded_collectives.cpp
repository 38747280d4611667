// The memory side of a sharded unit: gather into one flat buffer, copy out of it, and reduce the
// gradients.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>

#include "harness/measure/recorder.h"
#include "harness/parallel/sharded_unit.h"

namespace tidemark {
namespace {

at::TensorOptions on_gpu(at::ScalarType type) {
  return at::TensorOptions().dtype(type).device(at::kCUDA);
}

/// The parts that a rank sends of each parameter, flat, and converted if the gathered type differs
/// from the stored one.
std::vector<at::Tensor> inputs_of(const std::vector<ShardedParameter>& parameters,
                                  const std::vector<std::int64_t>& split, at::ScalarType type) {
  std::vector<at::Tensor> inputs;
  for (const auto& p : parameters) inputs.push_back(p.padded_shard());
  if (inputs[0].scalar_type() == type) return inputs;
  auto converted = at::split_with_sizes(at::empty({c10::sum_integers(split)}, on_gpu(type)), split);
  at::_foreach_copy_(converted, inputs);
  return converted;
}

}  // namespace

std::vector<std::int64_t> ShardedUnit::split() const {
  std::vector<std::int64_t> all;
  for (const auto& p : parameters_) all.push_back(p.padded_numel());
  return all;
}

Gathered ShardedUnit::gather_flat() {
  step_.limit_in_flight();
  const c10::cuda::CUDAStreamGuard guard(step_.gather_stream);
  const CategoryScope category(
      frozen_ ? MemoryKind::gathered_frozen_parameters : MemoryKind::gathered_parameters, unit());
  const auto& shard = parameters_[0].padded_shard();
  const auto whole = parameters_[0].take();
  if (step_.ranks() > 1) {
    step_.communicator->all_gather_into(whole, shard, {});
  } else {
    whole.copy_(shard);
  }
  return {};
}

Gathered ShardedUnit::gather() {
  if (flat()) return gather_flat();
  Gathered result;
  if (step_.ranks() == 1) return result;
  const auto& options = step_.options;
  const auto layout = options.layout;
  const CategoryScope category(MemoryKind::sharding_buffers, unit());
  step_.limit_in_flight();

  const auto current = c10::cuda::getCurrentCUDAStream();
  const bool separate = layout == GatherLayout::separate_streams;
  const bool async = layout == GatherLayout::asynchronous || layout == GatherLayout::two_buffers;
  const auto copy_in = separate ? step_.copy_in_stream : current;
  const auto gather = async ? current : step_.gather_stream;
  const auto parts = split();
  const auto numel = c10::sum_integers(parts);
  at::Tensor input;
  {
    const c10::cuda::CUDAStreamGuard guard(copy_in);
    const auto inputs = inputs_of(parameters_, parts, step_.gathered);
    result.flat = layout == GatherLayout::two_buffers
                      ? step_.next_buffer(numel * step_.ranks(), step_.gathered)
                      : at::empty({numel * step_.ranks()}, on_gpu(step_.gathered));
    input = result.flat.narrow(0, numel * step_.rank(), numel);
    at::_foreach_copy_(at::split_with_sizes(input, parts), inputs);
  }
  if (gather != copy_in) wait_for(gather, copy_in);
  {
    const c10::cuda::CUDAStreamGuard guard(gather);
    result.work =
        step_.communicator->all_gather_into(result.flat, input, {async, options.gather_reference});
    result.end.record(gather);
  }
  if (!options.unit_keeps_buffer) {
    result.flat = at::from_blob(result.flat.data_ptr(), result.flat.sizes(), result.flat.options());
  }
  return result;
}

void ShardedUnit::copy_out(Gathered& gathered) {
  const CategoryScope category(
      frozen_ ? MemoryKind::gathered_frozen_parameters : MemoryKind::gathered_parameters, unit());
  gathered.end.block(c10::cuda::getCurrentCUDAStream());
  if (gathered.work) gathered.work->wait();
  std::vector<at::Tensor> outputs;
  for (auto& p : parameters_) outputs.push_back(p.take().view({step_.ranks(), -1}));
  at::split_with_sizes_copy_out(outputs, gathered.flat.view({step_.ranks(), -1}), split(), 1);
}

void ShardedUnit::copy_own() {
  const CategoryScope category(
      frozen_ ? MemoryKind::gathered_frozen_parameters : MemoryKind::gathered_parameters, unit());
  at::Tensor input;  // outlives its turn of the loop, as in FSDP2
  for (auto& p : parameters_) {
    input = p.padded_shard().to(step_.gathered);
    p.take().copy_(input);
  }
}

void ShardedUnit::reduce_flat(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  auto& parameter = parameters_[0];
  wait_for(step_.reduce_stream, c10::cuda::getCurrentCUDAStream());
  const c10::cuda::CUDAStreamGuard guard(step_.reduce_stream);
  const CategoryScope category(MemoryKind::gradients, unit());
  const auto padding = parameter.padded_numel() * step_.ranks() - gradient.numel();
  const auto input = padding > 0 ? at::constant_pad_nd(gradient, {0, padding}) : gradient;
  const auto output = at::empty_like(parameter.padded_shard());
  step_.reduce_scatter(output, input);
  parameter.add_to_gradient(output);
  gradient.record_stream(step_.reduce_stream);
}

void ShardedUnit::reduce(std::vector<at::Tensor> gradients,
                         const std::vector<ShardedParameter*>& owners) {
  const at::NoGradGuard no_grad;
  const auto ranks = step_.ranks();
  const auto current = c10::cuda::getCurrentCUDAStream();
  std::int64_t numel = 0;
  for (auto* p : owners) numel += p->padded_numel();
  at::Tensor input;
  {
    const CategoryScope category(MemoryKind::sharding_buffers, unit());
    input = at::empty({numel * ranks}, on_gpu(step_.reduced));
    auto rows = input.view({ranks, -1});
    at::_chunk_cat_out(rows, gradients, 0, ranks);
  }
  // As in FSDP2, where a loop variable keeps it: the last gradient lives until the reduce-scatter
  // has been launched.
  const auto last = ranks > 1 ? gradients.back() : at::Tensor();
  gradients.clear();
  wait_for(step_.reduce_stream, current);

  const c10::cuda::CUDAStreamGuard guard(step_.reduce_stream);
  const CategoryScope category(MemoryKind::gradients, unit());
  auto output = at::empty({numel}, on_gpu(step_.reduced));
  step_.reduce_scatter(output, input);
  ShardedStep::Reducing reducing{std::move(input), {}};
  reducing.end.record(step_.reduce_stream);
  output = output.to(step_.stored);
  std::int64_t offset = 0;
  for (auto* p : owners) {
    p->add_to_gradient(output.as_strided(p->shard().sizes(), p->shard().strides(), offset));
    offset += p->padded_numel();
  }
  post_reduce_.emplace();
  post_reduce_->record(step_.reduce_stream);
  step_.reducing = std::move(reducing);
}

}  // namespace tidemark
