// Programs whose race is one of order: a wait that is missing, too early, on the wrong thing, or
// between streams that have no order of their own.
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {
namespace {

void missing_wait(bool right) {
  auto x = make();
  const auto side = side_stream();
  on(side, [&] { x.fill_(1); });
  if (right) wait(main_stream(), side);
  x.neg();
}

void write_after_read(bool right) {
  auto x = make();
  const auto side = side_stream();
  auto y = x.neg();
  if (right) wait(side, main_stream());
  on(side, [&] { x.fill_(2); });
}

void two_writers(bool right) {
  auto x = make();
  const auto side = side_stream();
  x.zero_();
  if (right) wait(side, main_stream());
  on(side, [&] { x.fill_(2); });
}

void event_recorded_too_early(bool right) {
  auto x = make();
  const auto side = side_stream();
  CUDAEvent event;
  if (!right) event.record(side);
  on(side, [&] { x.fill_(1); });
  if (right) event.record(side);
  event.block(main_stream());
  x.neg();
}

// A wait means the latest record, which is now another stream's.
void event_recorded_again(bool right) {
  auto x = make();
  const auto side = side_stream(), other = side_stream();
  CUDAEvent event, another;
  on(side, [&] { x.fill_(1); });
  event.record(side);
  (right ? another : event).record(other);
  event.block(main_stream());
  x.neg();
}

void waited_after_the_use(bool right) {
  auto x = make();
  const auto side = side_stream();
  CUDAEvent event;
  on(side, [&] { x.fill_(1); });
  event.record(side);
  if (right) event.block(main_stream());
  x.neg();
  if (!right) event.block(main_stream());
}

void chain_with_a_gap(bool right) {
  auto x = make();
  const auto a = side_stream(), b = side_stream();
  CUDAEvent passed_on;
  on(a, [&] { x.fill_(1); });
  if (!right) passed_on.record(b);  // before b has waited itself
  wait(b, a);
  if (right) passed_on.record(b);
  passed_on.block(main_stream());
  x.neg();
}

void one_of_two_producers(bool right) {
  auto x = make({2, 512});
  const auto a = side_stream(), b = side_stream();
  on(a, [&] { x[0].fill_(1); });
  on(b, [&] { x[1].zero_(); });
  wait(main_stream(), a);
  if (right) wait(main_stream(), b);
  x.neg();
}

void host_waits_for_another_stream(bool right) {
  auto x = make();
  const auto side = side_stream(), other = side_stream();
  on(side, [&] { x.fill_(1); });
  (right ? side : other).synchronize();
  x.neg();
}

void host_asks_about_another_event(bool right) {
  auto x = make();
  const auto side = side_stream();
  CUDAEvent before, after;
  before.record(side);
  on(side, [&] { x.fill_(1); });
  after.record(side);
  while (!(right ? after : before).query()) {
  }
  x.neg();
}

void another_device_synchronised(bool right) {
  auto x = make();
  const auto side = side_stream();
  on(side, [&] { x.fill_(1); });
  c10::cuda::set_device(right ? 0 : 1);
  CUDA_OK(cudaDeviceSynchronize());
  c10::cuda::set_device(0);
  x.neg();
}

// The legacy default stream orders itself after streams that were made blocking ...
void default_stream_waits_for_blocking_streams_alone(bool right) {
  auto x = make();
  cudaStream_t raw = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&raw, right ? cudaStreamDefault : cudaStreamNonBlocking));
  on(wrap(raw), [&] { x.fill_(1); });
  x.neg();
  CUDA_OK(cudaStreamDestroy(raw));
}

// ... and they after it.
void blocking_streams_alone_wait_for_the_default_stream(bool right) {
  auto x = make();
  cudaStream_t raw = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&raw, right ? cudaStreamDefault : cudaStreamNonBlocking));
  x.fill_(1);
  on(wrap(raw), [&] { x.neg(); });
  CUDA_OK(cudaStreamDestroy(raw));
}

// Blocking streams have no order among themselves, unless the default stream has worked in between.
void default_stream_between_blocking_streams(bool right) {
  auto x = make(), y = make();
  cudaStream_t a = nullptr, b = nullptr;
  CUDA_OK(cudaStreamCreate(&a));
  CUDA_OK(cudaStreamCreate(&b));
  on(wrap(a), [&] { x.fill_(1); });
  if (right) y.zero_();
  on(wrap(b), [&] { x.neg(); });
  CUDA_OK(cudaStreamDestroy(a));
  CUDA_OK(cudaStreamDestroy(b));
}

void priority_is_no_order(bool right) {
  auto x = make();
  const auto high = c10::cuda::getStreamFromPool(true, 0), low = side_stream();
  on(high, [&] { x.fill_(1); });
  if (right) wait(low, high);
  on(low, [&] { x.neg(); });
}

void stream_destroyed_with_work_pending(bool right) {
  auto x = make();
  cudaStream_t raw = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
  on(wrap(raw), [&] { x.fill_(1); });
  if (right) wait(main_stream(), wrap(raw));
  CUDA_OK(cudaStreamDestroy(raw));  // waits for nothing
  x.neg();
}

void threads_with_streams_of_their_own(bool right) {
  auto x = make();
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::thread([&] {
    EXPECT_EQ(cudaSuccess, cudaMemsetAsync(x.mutable_data_ptr(), 0, 4096, cudaStreamPerThread));
    EXPECT_EQ(cudaSuccess, cudaEventRecord(event, cudaStreamPerThread));
  }).join();
  std::thread([&] {
    if (right) {
      EXPECT_EQ(cudaSuccess, cudaStreamWaitEvent(cudaStreamPerThread, event, 0));
    }
    EXPECT_EQ(cudaSuccess, cudaMemsetAsync(x.mutable_data_ptr(), 1, 2048, cudaStreamPerThread));
  }).join();
  CUDA_OK(cudaEventDestroy(event));
}

// The engine runs every node on its forward's stream and leaves the caller's stream ordered after
// all gradients: the caller's, not the one that the optimizer runs on.
void optimizer_beside_backward(bool right) {
  auto weight = make({32, 32}).requires_grad_(true);
  const auto side = side_stream();
  wait(side, main_stream());
  {
    const Guard on(side);
    auto loss = at::mm(make({8, 32}), weight).sum();
    torch::autograd::backward({loss}, {});
  }
  if (right) wait(main_stream(), side);
  const at::NoGradGuard no_grad;
  weight.add_(weight.grad());
}

}  // namespace

std::vector<Program> stream_programs() {
  return {
      PROGRAM(missing_wait, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(write_after_read, "aten::neg", "aten::fill_.Scalar"),
      PROGRAM(two_writers, "aten::zero_", "aten::fill_.Scalar"),
      PROGRAM(event_recorded_too_early, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(event_recorded_again, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(waited_after_the_use, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(chain_with_a_gap, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(one_of_two_producers, "aten::zero_", "aten::neg"),
      PROGRAM(host_waits_for_another_stream, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(host_asks_about_another_event, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(another_device_synchronised, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(default_stream_waits_for_blocking_streams_alone, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(blocking_streams_alone_wait_for_the_default_stream, "aten::fill_.Scalar",
              "aten::neg"),
      PROGRAM(default_stream_between_blocking_streams, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(priority_is_no_order, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(stream_destroyed_with_work_pending, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(threads_with_streams_of_their_own, "memset", "memset"),
      PROGRAM(optimizer_beside_backward, "aten::mm", "aten::add_.Tensor"),
  };
}

}  // namespace tidemark::race::testing
