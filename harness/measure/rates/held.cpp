#include "harness/measure/rates/held.h"

#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAEvent.h>

#include <stdexcept>

namespace tidemark::rates {
namespace {

constexpr std::int64_t kLongestSleep = 1 << 29;  // cycles: about a quarter of a second

}  // namespace

Held::Held(std::function<void(std::int64_t)> hold) : hold_(std::move(hold)) {}
Held::Held() : Held([](std::int64_t cycles) { at::cuda::sleep(cycles); }) {}

double Held::time(const Enqueue& train) {
  for (;; cycles_ *= 2) {
    c10::cuda::CUDAEvent begin{cudaEventDefault}, end{cudaEventDefault};
    hold_(cycles_);
    begin.record();
    train();
    end.record();
    const bool held = !begin.query();
    end.synchronize();
    if (held) return 1e6 * static_cast<double>(begin.elapsed_time(end));
    if (cycles_ >= kLongestSleep)
      throw std::runtime_error(
          "the host does not get ahead of the device, so no rate of the device can be told from "
          "the host's: is CUDA_LAUNCH_BLOCKING set?");
  }
}

double Held::each(const Enqueue& operation, int less, int more) {
  const auto train = [&](int count) {
    return time([&] {
      for (int i = 0; i < count; ++i) operation();
    });
  };
  const double longer = train(less + more);
  return (longer - train(less)) / more;
}

}  // namespace tidemark::rates
