// Programs whose race is one of order: a wait that is missing, too early, on the wrong thing, or
// between streams that have no order of their own.
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {

void stream_programs(const Add& add) {
  add("missing_wait", kFill, kNeg, [](Scene& s) {
    s.fill_on_side();
    if (s.right) wait(main_stream(), s.side);
    s.x.neg();
  });

  add("write_after_read", kNeg, kFill, [](Scene& s) {
    auto y = s.x.neg();
    if (s.right) wait(s.side, main_stream());
    on(s.side, [&] { s.x.fill_(2); });
  });

  add("two_writers", kZero, kFill, [](Scene& s) {
    s.x.zero_();
    if (s.right) wait(s.side, main_stream());
    on(s.side, [&] { s.x.fill_(2); });
  });

  add("event_recorded_too_early", kFill, kNeg, [](Scene& s) {
    CUDAEvent event;
    if (!s.right) event.record(s.side);
    s.fill_on_side();
    if (s.right) event.record(s.side);
    event.block(main_stream());
    s.x.neg();
  });

  // A wait means the latest record, which is now another stream's.
  add("event_recorded_again", kFill, kNeg, [](Scene& s) {
    const auto other = side_stream();
    CUDAEvent event, another;
    s.fill_on_side();
    event.record(s.side);
    (s.right ? another : event).record(other);
    event.block(main_stream());
    s.x.neg();
  });

  add("waited_after_the_use", kFill, kNeg, [](Scene& s) {
    CUDAEvent event;
    s.fill_on_side();
    event.record(s.side);
    if (s.right) event.block(main_stream());
    s.x.neg();
    if (!s.right) event.block(main_stream());
  });

  add("chain_with_a_gap", kFill, kNeg, [](Scene& s) {
    const auto b = side_stream();
    CUDAEvent passed_on;
    s.fill_on_side();
    if (!s.right) passed_on.record(b);  // before b has waited itself
    wait(b, s.side);
    if (s.right) passed_on.record(b);
    passed_on.block(main_stream());
    s.x.neg();
  });

  add("one_of_two_producers", kZero, kNeg, [](Scene& s) {
    auto x = make({2, 512});
    const auto a = side_stream(), b = side_stream();
    on(a, [&] { x[0].fill_(1); });
    on(b, [&] { x[1].zero_(); });
    wait(main_stream(), a);
    if (s.right) wait(main_stream(), b);
    x.neg();
  });

  add("host_waits_for_another_stream", kFill, kNeg, [](Scene& s) {
    const auto other = side_stream();
    s.fill_on_side();
    (s.right ? s.side : other).synchronize();
    s.x.neg();
  });

  add("host_asks_about_another_event", kFill, kNeg, [](Scene& s) {
    CUDAEvent before, after;
    before.record(s.side);
    s.fill_on_side();
    after.record(s.side);
    while (!(s.right ? after : before).query()) {
    }
    s.x.neg();
  });

  // As the pinned allocator's event, which whichever thread allocates next asks for.
  add("another_thread_asks_about_another_event", kFill, kNeg, [](Scene& s) {
    CUDAEvent before, after;
    before.record(s.side);
    s.fill_on_side();
    after.record(s.side);
    std::thread([&] {
      while (!(s.right ? after : before).query()) {
      }
    }).join();
    s.x.neg();
  });

  add("another_device_synchronised", kFill, kNeg, [](Scene& s) {
    s.fill_on_side();
    c10::cuda::set_device(s.right ? 0 : 1);
    CUDA(cudaDeviceSynchronize());
    c10::cuda::set_device(0);
    s.x.neg();
  });

  // The legacy default stream orders itself after streams that were made blocking ...
  add("default_stream_waits_for_blocking_streams_alone", kFill, kNeg, [](Scene& s) {
    const auto raw = make_stream(s.right ? cudaStreamDefault : cudaStreamNonBlocking);
    on(wrap(raw), [&] { s.x.fill_(1); });
    s.x.neg();
    CUDA(cudaStreamDestroy(raw));
  });

  // ... and they after it.
  add("blocking_streams_alone_wait_for_the_default_stream", kFill, kNeg, [](Scene& s) {
    const auto raw = make_stream(s.right ? cudaStreamDefault : cudaStreamNonBlocking);
    s.x.fill_(1);
    on(wrap(raw), [&] { s.x.neg(); });
    CUDA(cudaStreamDestroy(raw));
  });

  // Blocking streams have no order among themselves, unless the default stream has worked in
  // between.
  add("default_stream_between_blocking_streams", kFill, kNeg, [](Scene& s) {
    auto y = make();
    const auto a = make_stream(cudaStreamDefault), b = make_stream(cudaStreamDefault);
    on(wrap(a), [&] { s.x.fill_(1); });
    if (s.right) y.zero_();
    on(wrap(b), [&] { s.x.neg(); });
    CUDA(cudaStreamDestroy(a));
    CUDA(cudaStreamDestroy(b));
  });

  add("priority_is_no_order", kFill, kNeg, [](Scene& s) {
    const auto high = c10::cuda::getStreamFromPool(true, 0), low = side_stream();
    on(high, [&] { s.x.fill_(1); });
    if (s.right) wait(low, high);
    on(low, [&] { s.x.neg(); });
  });

  add("stream_destroyed_with_work_pending", kFill, kNeg, [](Scene& s) {
    const auto raw = make_stream();
    on(wrap(raw), [&] { s.x.fill_(1); });
    if (s.right) wait(main_stream(), wrap(raw));
    CUDA(cudaStreamDestroy(raw));  // waits for nothing
    s.x.neg();
  });

  add("threads_with_streams_of_their_own", "memset", "memset", [](Scene& s) {
    const auto event = make_event();
    std::thread([&] {
      CUDA(cudaMemsetAsync(s.x.mutable_data_ptr(), 0, 4096, cudaStreamPerThread));
      CUDA(cudaEventRecord(event, cudaStreamPerThread));
    }).join();
    std::thread([&] {
      if (s.right) CUDA(cudaStreamWaitEvent(cudaStreamPerThread, event, 0));
      CUDA(cudaMemsetAsync(s.x.mutable_data_ptr(), 1, 2048, cudaStreamPerThread));
    }).join();
    CUDA(cudaEventDestroy(event));
  });

  // The engine runs every node on its forward's stream and leaves the caller's stream ordered after
  // all gradients: the caller's, not the one that the optimizer runs on.
  add("optimizer_beside_backward", "aten::mm", "aten::add_.Tensor", [](Scene& s) {
    auto weight = make({32, 32}).requires_grad_(true);
    wait(s.side, main_stream());
    {
      const Guard on(s.side);
      auto loss = at::mm(make({8, 32}), weight).sum();
      torch::autograd::backward({loss}, {});
    }
    if (s.right) wait(main_stream(), s.side);
    const at::NoGradGuard no_grad;
    weight.add_(weight.grad());
  });
}

}  // namespace tidemark::race::testing
