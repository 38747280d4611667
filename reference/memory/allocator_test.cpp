// The model against PyTorch's own allocator: the same random programs, all four figures after every
// call.
#include "reference/memory/allocator.h"

#include <ATen/ops/ones.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>

#include "harness/device/platform.h"

extern "C" int cublasCreate_v2(void** handle);  // the set-up brings no header of cuBLAS

namespace tidemark::reference {
namespace {

namespace real = c10::cuda::CUDACachingAllocator;
constexpr std::int64_t kMiB = 1 << 20;

struct Both {
  void* pointer;
  Allocator::Handle handle;
  std::int64_t bytes;
};

/// Placement of the virtual device. CMake sets its environment.
Placement placement() {
  const char* name = std::getenv("TIDEMARK_PLACEMENT");
  return placement_named(name ? name : "");
}

class Program {
 public:
  Program(unsigned seed, bool instant)
      : random_(seed),
        few_sizes_(seed % 2 == 1),
        model_(instant, placement()),
        streams_{c10::cuda::getDefaultCUDAStream(), c10::cuda::getStreamFromPool(false),
                 c10::cuda::getStreamFromPool(true)} {}

  void run(int calls) {
    for (int i = 0; i < calls && !testing::Test::HasFailure(); ++i) {
      call();
      compare(i);
    }
    for (auto& block : live_) real::raw_delete(block.pointer);
    c10::cuda::device_synchronize();
    real::emptyCache();
  }

 private:
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_);
  }

  /// In every other program one of few sizes, so that ties between free blocks are common.
  std::int64_t size() {
    if (few_sizes_)
      return std::array{1, 2, 3, 5, 12, 20, 26}[at(static_cast<int>(below(7)))] * kMiB;
    switch (below(6)) {
      case 0:
        return 1 + below(2000);
      case 1:
        return 1 + below(kMiB);
      case 2:
        return kMiB - 512 + 256 * below(5);  // about the border between the pools
      case 3:
        return kMiB + below(9 * kMiB);
      case 4:
        return 10 * kMiB - 512 + 256 * below(5);  // about the border to segments of their own
      default:
        return 10 * kMiB + below(20 * kMiB);
    }
  }

  void call() {
    const auto stream = static_cast<int>(below(3));
    switch (live_.empty() ? 0 : below(8)) {
      case 0:
      case 1:
      case 2: {
        const auto bytes = size();
        void* pointer =
            real::raw_alloc_with_stream(static_cast<std::size_t>(bytes), streams_[at(stream)]);
        live_.push_back({pointer, model_.allocate(bytes, stream), bytes});
        break;
      }
      case 3:
      case 4: {
        std::swap(live_[static_cast<std::size_t>(below(std::ssize(live_)))], live_.back());
        real::raw_delete(live_.back().pointer);
        model_.free(live_.back().handle);
        live_.pop_back();
        break;
      }
      case 5: {
        auto& block = live_[static_cast<std::size_t>(below(std::ssize(live_)))];
        const c10::DataPtr view(block.pointer, block.pointer, real::get()->raw_deleter(),
                                at::Device(at::kCUDA, 0));
        real::recordStream(view, streams_[at(stream)]);
        const_cast<c10::DataPtr&>(view).release_context();
        model_.record(block.handle, stream);
        break;
      }
      case 6:
        ASSERT_EQ(cudaMemsetAsync(live_.back().pointer, 0, 1, streams_[at(stream)]), cudaSuccess);
        model_.enqueue(stream);
        break;
      default:
        if (below(3) > 0) break;
        c10::cuda::stream_synchronize(streams_[at(stream)]);
        model_.synchronize(stream);
    }
  }
  static std::size_t at(int stream) { return static_cast<std::size_t>(stream); }

  void compare(int call) {
    const auto stats = real::getDeviceStats(0);
    const std::array seen{stats.allocated_bytes[0], stats.active_bytes[0], stats.reserved_bytes[0],
                          stats.requested_bytes[0]};
    const std::array modelled{model_.allocated, model_.active, model_.reserved, model_.requested};
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(modelled[i].current, seen[i].current)
          << "statistic " << i << " after call " << call;
      EXPECT_EQ(modelled[i].peak, seen[i].peak)
          << "peak of statistic " << i << " after call " << call;
    }
  }

  std::mt19937 random_;
  const bool few_sizes_;
  Allocator model_;
  std::array<c10::cuda::CUDAStream, 3> streams_;
  std::vector<Both> live_;
};

class AllocatorModel : public testing::TestWithParam<const char*> {};

TEST_P(AllocatorModel, FollowsTheRealOneThroughRandomPrograms) {
  c10::cuda::device_count_ensure_non_zero();
  real::init(1);
  at::ones(1, at::kCUDA);
  void* handle = nullptr;
  ASSERT_EQ(cublasCreate_v2(&handle), 0);  // of_wsl2 holds from here on
  real::emptyCache();
  platform().begin(GetParam(), Mode::shapes);
  for (unsigned seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE("program " + std::to_string(seed));
    real::resetPeakStats(0);
    Program(seed, std::string(GetParam()) == "instant").run(120);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, AllocatorModel, testing::Values("instant", "lagging"));

}  // namespace
}  // namespace tidemark::reference
