#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "harness/measure/rates/held.h"
#include "harness/measure/rates/rates.h"

namespace tidemark::rates {
namespace {

constexpr std::int64_t kFirstSide = 1024, kLastSide = 8192;
constexpr double kLongestProduct = 20e6;  // ns

class Tf32 {
 public:
  explicit Tf32(bool on) : before_(at::globalContext().allowTF32CuBLAS()) {
    at::globalContext().setAllowTF32CuBLAS(on);
  }
  ~Tf32() { at::globalContext().setAllowTF32CuBLAS(before_); }
  Tf32(const Tf32&) = delete;
  Tf32& operator=(const Tf32&) = delete;

 private:
  bool before_;
};

double flops(std::int64_t side) {
  const auto n = static_cast<double>(side);
  return 2 * n * n * n;
}

/// A matrix product of two of this side.
Held::Enqueue product(std::int64_t side, at::ScalarType type) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
  const at::Tensor a = at::randn({side, side}, options), b = at::randn_like(a);
  return [=, c = at::empty_like(a)]() mutable { at::mm_out(c, a, b); };
}

double time_of(const Held::Enqueue& product, Held& held) { return held.each(product, 1, 2); }

// The longest that is short enough: eight times the work of half of it.
std::int64_t side_for(at::ScalarType type, Held& held) {
  const Bytes most = share_of_free(Bytes{1} << 30);
  std::int64_t side = kFirstSide;
  for (; side < kLastSide; side *= 2) {
    if (4 * side * side * static_cast<std::int64_t>(at::elementSize(type)) > most) break;
    const auto one = product(side, type);
    time_of(one, held);
    if (8 * time_of(one, held) > kLongestProduct) break;
  }
  return side;
}

Rate dense_rate(const char* name, at::ScalarType type, bool tf32, const Deadline& deadline) {
  if (deadline.over()) return {"dense_tflops", name, std::nullopt, why_none(deadline)};
  const Tf32 precision(tf32);
  Held held;
  const std::int64_t side = side_for(type, held);
  const auto small = product(side / 2, type), large = product(side, type);
  const auto how = fmt::format("matrix products of {} and {} a side", side / 2, side);
  return measured("dense_tflops", name, how, deadline, [&] {
    const double longer = time_of(large, held);  // flop/ns are GFLOP/s
    return 1e-3 * (flops(side) - flops(side / 2)) / (longer - time_of(small, held));
  });
}

}  // namespace

std::vector<Rate> dense_rates(const Deadline& deadline) {
  const at::NoGradGuard no_grad;
  return {dense_rate("f64", at::kDouble, false, deadline),
          dense_rate("f32", at::kFloat, false, deadline),
          dense_rate("tf32", at::kFloat, true, deadline),
          dense_rate("f16", at::kHalf, false, deadline),
          dense_rate("bf16", at::kBFloat16, false, deadline)};
}

}  // namespace tidemark::rates
