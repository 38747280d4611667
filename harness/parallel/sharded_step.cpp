#include "harness/parallel/sharded_step.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>

#include "harness/measure/recorder.h"
#include "harness/parallel/sharded_unit.h"

namespace tidemark {
namespace {

at::ScalarType element_type(std::int64_t bytes) { return bytes == 2 ? at::kBFloat16 : at::kFloat; }

}  // namespace

ShardedStep::ShardedStep(Communicator* communicator_, const ShardingOptions& options_)
    : communicator(communicator_),
      options(options_),
      stored(element_type(options.stored)),
      gathered(element_type(options.gathered)),
      reduced(element_type(options.reduced)),
      copy_in_stream(c10::cuda::getStreamFromPool(true)),
      gather_stream(c10::cuda::getStreamFromPool(true)),
      reduce_stream(c10::cuda::getStreamFromPool(true)) {}

void ShardedStep::begin_forward() {
  c10::cuda::CUDAEvent now;
  now.record(c10::cuda::getCurrentCUDAStream());
  gathers_wait_for(now);
}

void ShardedStep::end_forward() {
  if (!deferred) return;
  gathers_wait_for(deferred->copied_out);
  deferred.reset();
}

void ShardedStep::expect_end_of_backward() {
  if (end_expected_) return;
  end_expected_ = true;
  torch::autograd::Engine::get_default_engine().queue_callback([this] { end_backward(); });
}

void ShardedStep::end_backward() {
  tell("end of backward");
  if (options.layout == GatherLayout::flat)
    wait_for(c10::cuda::getCurrentCUDAStream(), reduce_stream);
  for (auto* unit : units) unit->end_backward();
  tell("finalised");
  if (options.free_regathered) {
    for (auto* unit : units) unit->free_regathered();
  }
  forward_order.clear();
  if (reducing) {
    reducing->end.block(c10::cuda::getCurrentCUDAStream());
    reducing.reset();
  }
  end_expected_ = false;
}

// PyTorch refuses a tensor whose storage is gone when it takes a view of it or asks for its
// address.
bool reads_freed_parameter(const c10::Error& error) {
  const std::string_view message = error.what_without_backtrace();
  return message.find("storage of size 0") != message.npos ||
         message.find("not allocated") != message.npos;
}

void ShardedStep::abandon() {
  for (auto* unit : units) unit->abandon();
  forward_order.clear();
  deferred.reset();
  reducing.reset();
  end_expected_ = false;
}

void wait_for(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& waited) {
  c10::cuda::CUDAEvent event;
  event.record(waited);
  event.block(waiting);
}

void ShardedStep::reduce_scatter(const at::Tensor& output, const at::Tensor& input) const {
  if (ranks() > 1)
    communicator->reduce_scatter_into(output, input, Reduction::average, {});
  else
    output.copy_(input);
}

void ShardedStep::gathers_wait_for(c10::cuda::CUDAEvent& event) {
  event.block(copy_in_stream);
  event.block(gather_stream);
}

at::Tensor ShardedStep::next_buffer(std::int64_t numel, at::ScalarType type) {
  auto& buffer = buffers_[next_];
  next_ = 1 - next_;
  if (!buffer.defined() || buffer.numel() < numel) {
    const CategoryScope category(MemoryKind::persistent_buffers);
    buffer.reset();
    buffer = at::empty({numel}, at::TensorOptions().dtype(type).device(at::kCUDA));
  }
  return buffer.narrow(0, 0, numel);
}

void ShardedStep::limit_in_flight() {
  if (options.in_flight_limit == 0) return;
  if (in_flight_.size() < static_cast<std::size_t>(options.in_flight_limit)) return;
  in_flight_.front().synchronize();
  in_flight_.pop_front();
}

void ShardedStep::used_up() {
  if (options.in_flight_limit == 0) return;
  in_flight_.emplace_back();
  in_flight_.back().record(c10::cuda::getCurrentCUDAStream());
}

}  // namespace tidemark
