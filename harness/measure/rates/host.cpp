#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <utility>

#include "harness/device/platform.h"
#include "harness/measure/rates/rates.h"

namespace tidemark::rates {
namespace {

// Segment of PyTorch's allocator for requests between 1 and 10 MiB (c10/core/AllocatorConfig.h).
constexpr std::size_t kSegment = 20 << 20;
constexpr int kSegments = 8;
constexpr int kOperators = 200;  // fewer than a device's queue takes before it holds the host up
constexpr int kCalls = 500;

/// ns of the host for each of `count` calls, from an idle device.
template <class Call>
double on_host(int count, Call call) {
  c10::cuda::device_synchronize();
  const Ns begin = platform().now();
  for (int i = 0; i < count; ++i) call(static_cast<std::size_t>(i));
  return static_cast<double>(platform().now() - begin) / count;
}

struct Segments {
  std::vector<void*> all = std::vector<void*>(kSegments);
  double allocate() {
    return on_host(kSegments,
                   [&](std::size_t i) { C10_CUDA_CHECK(cudaMalloc(&all[i], kSegment)); });
  }
  double release() {
    return on_host(kSegments, [&](std::size_t i) {
      C10_CUDA_CHECK(cudaFree(std::exchange(all[i], nullptr)));
    });
  }
};

}  // namespace

std::vector<Rate> host_rates(const Deadline& deadline) {
  const at::NoGradGuard no_grad;
  at::Tensor one = at::ones({1}, at::TensorOptions().device(at::kCUDA).dtype(at::kFloat));
  std::vector<Rate> all{measured("host", "launch_ns", "operators of one kernel", deadline, [&] {
    return on_host(kOperators, [&](std::size_t) { one.add_(1); });
  })};
  c10::cuda::CUDAEvent done{cudaEventDisableTiming};
  done.record();
  done.synchronize();
  all.push_back(measured("host", "poll_ns", "queries of an event that is done", deadline,
                         [&] { return on_host(kCalls, [&](std::size_t) { done.query(); }); }));
  all.push_back(
      measured("host", "synchronise_ns", "synchronisations of an idle stream", deadline, [&] {
        return on_host(kCalls,
                       [](std::size_t) { c10::cuda::getCurrentCUDAStream().synchronize(); });
      }));
  const auto& synchronise = all.back().measured;
  const double waiting = synchronise ? synchronise->median : NAN;
  Segments segments;
  all.push_back(measured("host", "allocate_ns", "cudaMalloc of 20 MiB", deadline, [&] {
    const double ns = segments.allocate();
    segments.release();
    return ns;
  }));
  all.push_back(
      measured("host", "release_ns", "cudaFree of 20 MiB less a synchronisation", deadline, [&] {
        segments.allocate();
        return segments.release() - waiting;
      }));
  return all;
}

}  // namespace tidemark::rates
