#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "harness/measure/rates/held.h"
#include "harness/measure/rates/rates.h"

namespace tidemark::rates {
namespace {

constexpr Bytes kMiB = 1 << 20;

/// c = a + b: three times its bytes.
Held::Enqueue sum(Bytes bytes) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  const at::Tensor a = at::ones({bytes / 4}, options), b = at::ones_like(a);
  return [=, c = at::empty_like(a)]() mutable { at::add_out(c, a, b); };
}

Rate bandwidth(const Deadline& deadline) {
  const Bytes large = share_of_free(1024 * kMiB), small = large / 4;
  if (large < 256 * kMiB)  // the small ones are to be beyond any L2
    return {"memory", "gbps", std::nullopt, "too little memory is free"};
  Held held;
  const auto longer = sum(large), shorter = sum(small);
  const auto how = fmt::format("sums of {} and {} MiB", small / kMiB, large / kMiB);
  return measured("memory", "gbps", how, deadline, [&] {
    const double time = held.each(longer, 2, 4);
    return 3 * static_cast<double>(large - small) / (time - held.each(shorter, 2, 4));
  });
}

Rate kernel_latency(const Deadline& deadline) {
  Held held;
  at::Tensor one = at::ones({1}, at::TensorOptions().device(at::kCUDA).dtype(at::kFloat));
  return measured("host", "kernel_latency_ns", "operators of one element, one behind the other",
                  deadline,
                  [&] { return held.each([&] { one.add_(1); }, /*less=*/100, /*more=*/100); });
}

}  // namespace

std::vector<Rate> memory_rates(const Deadline& deadline) {
  const at::NoGradGuard no_grad;
  return {bandwidth(deadline), kernel_latency(deadline)};
}

}  // namespace tidemark::rates
