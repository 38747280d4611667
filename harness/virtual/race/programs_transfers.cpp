// Programs whose race is in a copy, a memset, or between the device and the host.
#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {
namespace {

void copy_from_a_source_still_written(bool right) {
  auto x = make(), y = make();
  const auto side = side_stream();
  on(side, [&] { x.fill_(1); });
  if (right) wait(main_stream(), side);
  y.copy_(x);
}

void memset_under_a_reader(bool right) {
  auto x = make();
  const auto side = side_stream();
  x.neg();
  if (right) wait(side, main_stream());
  CUDA_OK(cudaMemsetAsync(x.mutable_data_ptr(), 0, x.nbytes(), side));
}

void rectangle_that_reaches_over(bool right) {
  auto x = make({16, 64});
  const auto side = side_stream();
  x.narrow(1, 32, 32).fill_(1);
  CUDA_OK(cudaMemset2DAsync(x.mutable_data_ptr(), 256, 0, right ? 128 : 132, 16, side));
}

void host_reads_a_copy_under_way(bool right) {
  auto x = make({});
  auto host = pinned({});
  CUDAEvent copied;
  x.fill_(1);
  host.copy_(x, /*non_blocking=*/true);
  copied.record(main_stream());
  if (right) copied.synchronize();
  host.item<float>();
}

void host_converts_a_copy_under_way(bool right) {
  auto x = make();
  auto host = pinned({1024});
  host.copy_(x, /*non_blocking=*/true);
  if (right) main_stream().synchronize();
  host.to(at::kDouble);
}

void host_refills_a_buffer_that_is_read(bool right) {
  auto x = make();
  auto host = pinned({1024});
  host.fill_(1);
  x.copy_(host, /*non_blocking=*/true);
  if (right) main_stream().synchronize();
  host.fill_(2);
}

void value_read_on_another_stream(bool right) {
  auto x = make({});
  const auto side = side_stream();
  on(side, [&] { x.fill_(1); });
  if (right) wait(main_stream(), side);
  x.item<float>();  // waits for its own stream alone
}

void pageable_copy_of_what_is_written(bool right) {
  auto x = make();
  const auto side = side_stream();
  on(side, [&] { x.fill_(1); });
  if (right) side.synchronize();
  x.cpu();
}

void pinned_buffer_filled_twice(bool right) {
  auto x = make(), y = make();
  auto host = pinned({1024});
  const auto side = side_stream();
  host.copy_(x, /*non_blocking=*/true);
  if (right) wait(side, main_stream());
  on(side, [&] { host.copy_(y, /*non_blocking=*/true); });
}

void copied_between_devices_too_early(bool right) {
  auto x = make();
  auto y = at::empty({1024}, at::TensorOptions().device(at::Device(at::kCUDA, 1)));
  const auto there = c10::cuda::getStreamFromPool(false, 1);
  x.fill_(1);
  if (right) wait(there, main_stream());
  CUDA_OK(cudaMemcpyPeerAsync(y.mutable_data_ptr(), 1, x.const_data_ptr(), 0, x.nbytes(), there));
  CUDA_OK(cudaStreamSynchronize(there));
}

// copy_ between devices runs on the source's stream, and both current streams are ordered around
// it; others are not.
void copied_between_devices_and_used_elsewhere(bool right) {
  auto x = make();
  const at::Device second(at::kCUDA, 1);
  const auto there = c10::cuda::getStreamFromPool(false, 1);
  auto y = x.to(second);
  const auto current = c10::cuda::getDefaultCUDAStream(1);
  if (right) wait(there, current);
  on(there, [&] { y.neg(); });
}

// A host function is an operation of its stream: what waits for the stream's end waits for all
// before it.
void host_function_is_no_wait(bool right) {
  auto x = make();
  const auto side = side_stream();
  on(side, [&] { x.fill_(1); });
  CUDA_OK(cudaLaunchHostFunc(
      right ? side : side_stream(), [](void*) {}, nullptr));
  if (right) wait(main_stream(), side);
  x.neg();
}

}  // namespace

std::vector<Program> transfer_programs() {
  return {
      PROGRAM(copy_from_a_source_still_written, "aten::fill_.Scalar", "aten::copy_"),
      PROGRAM(memset_under_a_reader, "aten::neg", "memset"),
      PROGRAM(rectangle_that_reaches_over, "aten::fill_.Scalar", "memset"),
      PROGRAM(host_reads_a_copy_under_way, "aten::copy_", "aten::_local_scalar_dense"),
      PROGRAM(host_converts_a_copy_under_way, "aten::copy_", "aten::copy_"),
      PROGRAM(host_refills_a_buffer_that_is_read, "aten::copy_", "aten::fill_.Scalar"),
      PROGRAM(value_read_on_another_stream, "aten::fill_.Scalar", "aten::_local_scalar_dense"),
      PROGRAM(pageable_copy_of_what_is_written, "aten::fill_.Scalar", "aten::copy_"),
      PROGRAM(pinned_buffer_filled_twice, "aten::copy_", "aten::copy_"),
      PROGRAM(copied_between_devices_too_early, "aten::fill_.Scalar", "memcpy PtoP"),
      PROGRAM(copied_between_devices_and_used_elsewhere, "aten::copy_", "aten::neg"),
      PROGRAM(host_function_is_no_wait, "aten::fill_.Scalar", "aten::neg"),
  };
}

}  // namespace tidemark::race::testing
