// Programs whose race is in a copy, a memset, or between the device and the host.
#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {

void transfer_programs(const Add& add) {
  add("copy_from_a_source_still_written", kFill, kCopy, [](Scene& s) {
    auto y = make();
    s.fill_on_side();
    if (s.right) wait(main_stream(), s.side);
    y.copy_(s.x);
  });

  add("memset_under_a_reader", kNeg, "memset", [](Scene& s) {
    s.x.neg();
    if (s.right) wait(s.side, main_stream());
    CUDA(cudaMemsetAsync(s.x.mutable_data_ptr(), 0, s.x.nbytes(), s.side));
  });

  add("rectangle_that_reaches_over", kFill, "memset", [](Scene& s) {
    auto x = make({16, 64});
    x.narrow(1, 32, 32).fill_(1);
    CUDA(cudaMemset2DAsync(x.mutable_data_ptr(), 256, 0, s.right ? 128 : 132, 16, s.side));
  });

  add("host_reads_a_copy_under_way", kCopy, "aten::_local_scalar_dense", [](Scene& s) {
    auto x = make({});
    auto host = pinned({});
    CUDAEvent copied;
    x.fill_(1);
    host.copy_(x, /*non_blocking=*/true);
    copied.record(main_stream());
    if (s.right) copied.synchronize();
    host.item<float>();
  });

  add("host_converts_a_copy_under_way", kCopy, kCopy, [](Scene& s) {
    auto host = pinned({1024});
    host.copy_(s.x, /*non_blocking=*/true);
    if (s.right) main_stream().synchronize();
    host.to(at::kDouble);
  });

  add("host_refills_a_buffer_that_is_read", kCopy, kFill, [](Scene& s) {
    auto host = pinned({1024});
    host.fill_(1);
    s.x.copy_(host, /*non_blocking=*/true);
    if (s.right) main_stream().synchronize();
    host.fill_(2);
  });

  add("value_read_on_another_stream", kFill, "aten::_local_scalar_dense", [](Scene& s) {
    auto x = make({});
    on(s.side, [&] { x.fill_(1); });
    if (s.right) wait(main_stream(), s.side);
    x.item<float>();  // waits for its own stream alone
  });

  add("pageable_copy_of_what_is_written", kFill, kCopy, [](Scene& s) {
    s.fill_on_side();
    if (s.right) s.side.synchronize();
    s.x.cpu();
  });

  add("pinned_buffer_filled_twice", kCopy, kCopy, [](Scene& s) {
    auto y = make();
    auto host = pinned({1024});
    host.copy_(s.x, /*non_blocking=*/true);
    if (s.right) wait(s.side, main_stream());
    on(s.side, [&] { host.copy_(y, /*non_blocking=*/true); });
  });

  add("copied_between_devices_too_early", kFill, "memcpy PtoP", [](Scene& s) {
    auto y = at::empty({1024}, at::TensorOptions().device(at::Device(at::kCUDA, 1)));
    const auto there = c10::cuda::getStreamFromPool(false, 1);
    s.x.fill_(1);
    if (s.right) wait(there, main_stream());
    CUDA(
        cudaMemcpyPeerAsync(y.mutable_data_ptr(), 1, s.x.const_data_ptr(), 0, s.x.nbytes(), there));
    CUDA(cudaStreamSynchronize(there));
  });

  // copy_ between devices runs on the source's stream, and both current streams are ordered around
  // it; others are not.
  add("copied_between_devices_and_used_elsewhere", kCopy, kNeg, [](Scene& s) {
    const at::Device second(at::kCUDA, 1);
    const auto there = c10::cuda::getStreamFromPool(false, 1);
    auto y = s.x.to(second);
    const auto current = c10::cuda::getDefaultCUDAStream(1);
    if (s.right) wait(there, current);
    on(there, [&] { y.neg(); });
  });

  // A host function is an operation of its stream: what waits for the stream's end waits for all
  // before it.
  add("host_function_is_no_wait", kFill, kNeg, [](Scene& s) {
    s.fill_on_side();
    CUDA(cudaLaunchHostFunc(
        s.right ? s.side : side_stream(), [](void*) {}, nullptr));
    if (s.right) wait(main_stream(), s.side);
    s.x.neg();
  });
}

}  // namespace tidemark::race::testing
