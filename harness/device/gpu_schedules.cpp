#include "harness/device/gpu_schedules.h"

#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <vector>

namespace tidemark {
namespace {

std::unique_ptr<at::ObserverContext> settle_before(const at::RecordFunction&) {
  c10::cuda::device_synchronize();
  return nullptr;
}
void settle_after(const at::RecordFunction&, at::ObserverContext*) {
  c10::cuda::device_synchronize();
}

// The device's clock is known from nothing but itself: the attribute is gone from CUDA 13, and a
// GPU's clock follows its load.
double cycles_per_ns() {
  static const double rate = [] {
    constexpr std::int64_t kCycles = 4'000'000;
    c10::cuda::CUDAEvent begin{cudaEventDefault}, end{cudaEventDefault};
    at::cuda::sleep(kCycles);  // the first launch loads the kernel
    begin.record();
    at::cuda::sleep(kCycles);
    end.record();
    end.synchronize();
    return static_cast<double>(kCycles) / std::max(1e6 * begin.elapsed_time(end), 1.0);
  }();
  return rate;
}

// PyTorch gives its pool's streams in turn and says nowhere how many there are: a full turn leaves
// the next program the same stream as without it.
std::vector<c10::cuda::CUDAStream> pool(int priority) {
  const auto next = [&] {
    return c10::cuda::getStreamFromPool(priority, c10::cuda::current_device());
  };
  std::vector<c10::cuda::CUDAStream> all{next()};
  for (auto stream = next(); stream != all.front(); stream = next()) all.push_back(stream);
  for (std::size_t given = 1; given < all.size(); ++given) next();
  return all;
}

std::vector<c10::cuda::CUDAStream> all_pools() {
  const auto [least, greatest] = c10::cuda::CUDAStream::priority_range();
  std::vector<c10::cuda::CUDAStream> all;
  for (int priority = least; priority >= greatest; --priority)
    for (const auto& stream : pool(priority)) all.push_back(stream);
  return all;
}

}  // namespace

// Around, not only after: a block that was freed since the last operator awaits an event, which a
// GPU passes some microseconds later even where nothing is before it.
Lockstep::Lockstep()
    : handle_(at::addGlobalCallback(at::RecordFunctionCallback(settle_before, settle_after)
                                        .scopes({at::RecordScope::FUNCTION}))) {}
Lockstep::~Lockstep() { at::removeCallback(handle_); }

Hold::Hold(Ns ns) {
  at::cuda::sleep(
      static_cast<std::int64_t>(cycles_per_ns() * static_cast<double>(std::min(ns, kLongest))));
  over_.record();
  for (const auto& stream : all_pools()) over_.block(stream);
}

bool Hold::holds() const { return !over_.query(); }

}  // namespace tidemark
