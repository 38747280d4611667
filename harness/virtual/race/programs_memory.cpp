// Programs whose race is one of memory: blocks that come back too early, views that share bytes,
// lists.
#include <c10/cuda/CUDACachingAllocator.h>

#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

void freed_and_reused(bool right) {
  const auto side = side_stream();
  {
    auto x = make();
    x.zero_();
    wait(side, main_stream());
    const Guard on(side);
    x.neg();
    if (right) wait(main_stream(), side);
  }
  auto y = make();  // x's memory
  y.fill_(1);
}

void recorded_on_the_wrong_stream(bool right) {
  const auto side = side_stream(), other = side_stream();
  {
    auto x = make();
    x.zero_();
    wait(side, main_stream());
    on(side, [&] { x.neg(); });
    allocator::recordStream(x.storage().data_ptr(), right ? side : other);
  }
  auto y = make();
  y.fill_(1);
}

// The block goes back to the pool of the stream it is from, which knows nothing of the default
// stream's reader.
void side_streams_memory_used_on_the_default_stream(bool right) {
  const auto side = side_stream();
  {
    at::Tensor x;
    {
      const Guard on(side);
      x = make();
      x.zero_();
    }
    wait(main_stream(), side);
    x.neg();
    if (right) allocator::recordStream(x.storage().data_ptr(), main_stream());
  }
  const Guard on(side);
  auto y = make();
  y.fill_(1);
}

void buffers_in_turn_with_a_wait_too_few(bool right) {
  const auto side = side_stream();
  at::Tensor buffers[2] = {make(), make()};
  CUDAEvent read[2];
  for (int i = 0; i < 4; ++i) {
    if (i >= 2 && (right || i == 2)) read[i % 2].block(main_stream());
    buffers[i % 2].fill_(i);
    wait(side, main_stream());
    const Guard on(side);
    buffers[i % 2].neg();
    read[i % 2].record(side);
  }
}

void overlapping_views(bool right) {
  auto x = make();
  const auto side = side_stream();
  on(side, [&] { x.narrow(0, 0, 600).fill_(1); });
  x.narrow(0, right ? 600 : 599, 424).neg();
}

void columns_that_share_one(bool right) {
  auto x = make({64, 16});
  const auto side = side_stream();
  on(side, [&] { x.narrow(1, 0, 9).fill_(1); });
  x.narrow(1, right ? 9 : 8, 7).zero_();
}

// Columns of a transposed 4-D view: rows of heads interleave, and do not meet.
void heads_of_one_tensor(bool right) {
  auto x = make({4, 32, 8, 16});  // batch, sequence, heads, width
  const auto side = side_stream();
  on(side, [&] { x.narrow(2, 0, 4).transpose(1, 2).fill_(1); });
  x.narrow(2, right ? 4 : 3, 2).transpose(1, 2).zero_();
}

void expanded_reader(bool right) {
  auto x = make({1, 256});
  const auto side = side_stream();
  on(side, [&] { x.select(1, 255).fill_(1); });
  if (right) wait(main_stream(), side);
  at::add(x.expand({4, 256}), make({4, 256}));
}

void member_of_a_list(bool right) {
  std::vector<at::Tensor> list;
  for (int i = 0; i < 5; ++i) list.push_back(make({100}));
  const auto side = side_stream();
  on(side, [&] { list[3].neg(); });
  if (right) wait(main_stream(), side);
  at::_foreach_add_(list, 1);
}

void out_argument(bool right) {
  auto x = make(), y = make(), out = make();
  const auto side = side_stream();
  auto z = out.neg();
  if (right) wait(side, main_stream());
  on(side, [&] { at::add_out(out, x, y); });
}

// The pool of cudaMallocAsync: freed in the order of a stream that does not know of the reader.
void freed_in_another_streams_order(bool right) {
  const auto side = side_stream();
  void* x = nullptr;
  CUDA_OK(cudaMallocAsync(&x, 4096, main_stream()));
  CUDA_OK(cudaMemsetAsync(x, 0, 4096, side));
  if (right) wait(main_stream(), side);
  CUDA_OK(cudaFreeAsync(x, main_stream()));
  void* y = nullptr;
  CUDA_OK(cudaMallocAsync(&y, 4096, main_stream()));
  ASSERT_EQ(x, y);
  CUDA_OK(cudaMemsetAsync(y, 1, 4096, main_stream()));
  CUDA_OK(cudaFreeAsync(y, main_stream()));
  CUDA_OK(cudaDeviceSynchronize());
}

void pointer_that_outlives_its_tensor(bool right) {
  auto x = make();
  x.zero_();
  auto alias = at::from_blob(x.mutable_data_ptr(), x.sizes(), x.options());
  if (!right) x.reset();
  alias.neg();
}

// One operator that reads freed memory and has been given the same memory for its result.
void memory_given_away_twice(bool right) {
  auto x = make();
  x.zero_();
  auto alias = at::from_blob(x.mutable_data_ptr(), {512}, x.options());
  if (!right) x.reset();
  auto result = make();
  auto part = result.narrow(0, 256, 512);
  at::abs_out(part, alias);
}

}  // namespace

std::vector<Program> memory_programs() {
  return {
      PROGRAM(freed_and_reused, "aten::neg", "aten::fill_.Scalar"),
      PROGRAM(recorded_on_the_wrong_stream, "aten::neg", "aten::fill_.Scalar"),
      PROGRAM(side_streams_memory_used_on_the_default_stream, "aten::neg", "aten::fill_.Scalar"),
      PROGRAM(buffers_in_turn_with_a_wait_too_few, "aten::neg", "aten::fill_.Scalar"),
      PROGRAM(overlapping_views, "aten::fill_.Scalar", "aten::neg"),
      PROGRAM(columns_that_share_one, "aten::fill_.Scalar", "aten::zero_"),
      PROGRAM(heads_of_one_tensor, "aten::fill_.Scalar", "aten::zero_"),
      PROGRAM(expanded_reader, "aten::fill_.Scalar", "aten::add.Tensor"),
      PROGRAM(member_of_a_list, "aten::neg", "aten::_foreach_add_.Scalar"),
      PROGRAM(out_argument, "aten::neg", "aten::add.out"),
      PROGRAM(freed_in_another_streams_order, "memset", "memset"),
      PROGRAM(pointer_that_outlives_its_tensor, "free", "aten::neg"),
      PROGRAM(memory_given_away_twice, "aten::abs.out", "aten::abs.out"),
  };
}

}  // namespace tidemark::race::testing
