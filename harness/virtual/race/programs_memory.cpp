// Programs whose race is one of memory: blocks that come back too early, views that share bytes,
// lists.
#include <c10/cuda/CUDACachingAllocator.h>

#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {

namespace allocator = c10::cuda::CUDACachingAllocator;

void memory_programs(const Add& add) {
  add("freed_and_reused", kNeg, kFill, [](Scene& s) {
    {
      auto x = make();
      x.zero_();
      wait(s.side, main_stream());
      const Guard on(s.side);
      x.neg();
      if (s.right) wait(main_stream(), s.side);
    }
    auto y = make();  // x's memory
    y.fill_(1);
  });

  add("recorded_on_the_wrong_stream", kNeg, kFill, [](Scene& s) {
    const auto other = side_stream();
    {
      auto x = make();
      x.zero_();
      wait(s.side, main_stream());
      on(s.side, [&] { x.neg(); });
      allocator::recordStream(x.storage().data_ptr(), s.right ? s.side : other);
    }
    auto y = make();
    y.fill_(1);
  });

  // The block goes back to the pool of the stream it is from, which knows nothing of the default
  // stream's reader.
  add("side_streams_memory_used_on_the_default_stream", kNeg, kFill, [](Scene& s) {
    {
      at::Tensor x;
      {
        const Guard on(s.side);
        x = make();
        x.zero_();
      }
      wait(main_stream(), s.side);
      x.neg();
      if (s.right) allocator::recordStream(x.storage().data_ptr(), main_stream());
    }
    const Guard on(s.side);
    auto y = make();
    y.fill_(1);
  });

  add("buffers_in_turn_with_a_wait_too_few", kNeg, kFill, [](Scene& s) {
    at::Tensor buffers[2] = {make(), make()};
    CUDAEvent read[2];
    for (int i = 0; i < 4; ++i) {
      if (i >= 2 && (s.right || i == 2)) read[i % 2].block(main_stream());
      buffers[i % 2].fill_(i);
      wait(s.side, main_stream());
      const Guard on(s.side);
      buffers[i % 2].neg();
      read[i % 2].record(s.side);
    }
  });

  add("overlapping_views", kFill, kNeg, [](Scene& s) {
    on(s.side, [&] { s.x.narrow(0, 0, 600).fill_(1); });
    s.x.narrow(0, s.right ? 600 : 599, 424).neg();
  });

  add("columns_that_share_one", kFill, kZero, [](Scene& s) {
    auto x = make({64, 16});
    on(s.side, [&] { x.narrow(1, 0, 9).fill_(1); });
    x.narrow(1, s.right ? 9 : 8, 7).zero_();
  });

  // Columns of a transposed 4-D view: rows of heads interleave, and do not meet.
  add("heads_of_one_tensor", kFill, kZero, [](Scene& s) {
    auto x = make({4, 32, 8, 16});  // batch, sequence, heads, width
    on(s.side, [&] { x.narrow(2, 0, 4).transpose(1, 2).fill_(1); });
    x.narrow(2, s.right ? 4 : 3, 2).transpose(1, 2).zero_();
  });

  add("expanded_reader", kFill, "aten::add.Tensor", [](Scene& s) {
    auto x = make({1, 256});
    on(s.side, [&] { x.select(1, 255).fill_(1); });
    if (s.right) wait(main_stream(), s.side);
    at::add(x.expand({4, 256}), make({4, 256}));
  });

  add("member_of_a_list", kNeg, "aten::_foreach_add_.Scalar", [](Scene& s) {
    std::vector<at::Tensor> list;
    for (int i = 0; i < 5; ++i) list.push_back(make({100}));
    on(s.side, [&] { list[3].neg(); });
    if (s.right) wait(main_stream(), s.side);
    at::_foreach_add_(list, 1);
  });

  add("out_argument", kNeg, "aten::add.out", [](Scene& s) {
    auto y = make(), out = make();
    auto z = out.neg();
    if (s.right) wait(s.side, main_stream());
    on(s.side, [&] { at::add_out(out, s.x, y); });
  });

  // The pool of cudaMallocAsync: freed in the order of a stream that does not know of the reader.
  add("freed_in_another_streams_order", "memset", "memset", [](Scene& s) {
    void* x = nullptr;
    CUDA(cudaMallocAsync(&x, 4096, main_stream()));
    CUDA(cudaMemsetAsync(x, 0, 4096, s.side));
    if (s.right) wait(main_stream(), s.side);
    CUDA(cudaFreeAsync(x, main_stream()));
    void* y = nullptr;
    CUDA(cudaMallocAsync(&y, 4096, main_stream()));
    ASSERT_EQ(x, y);
    CUDA(cudaMemsetAsync(y, 1, 4096, main_stream()));
    CUDA(cudaFreeAsync(y, main_stream()));
    CUDA(cudaDeviceSynchronize());
  });

  add("pointer_that_outlives_its_tensor", "free", kNeg, [](Scene& s) {
    s.x.zero_();
    auto alias = at::from_blob(s.x.mutable_data_ptr(), s.x.sizes(), s.x.options());
    if (!s.right) s.x.reset();
    alias.neg();
  });

  // One operator that reads freed memory and has been given the same memory for its result.
  add("memory_given_away_twice", "aten::abs.out", "aten::abs.out", [](Scene& s) {
    s.x.zero_();
    auto alias = at::from_blob(s.x.mutable_data_ptr(), {512}, s.x.options());
    if (!s.right) s.x.reset();
    auto result = make();
    auto part = result.narrow(0, 256, 512);
    at::abs_out(part, alias);
  });
}

}  // namespace tidemark::race::testing
