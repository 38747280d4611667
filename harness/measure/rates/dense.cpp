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

class Product {
 public:
  Product(std::int64_t side, at::ScalarType type)
      : a_(at::randn({side, side}, at::TensorOptions().device(at::kCUDA).dtype(type))),
        b_(at::randn_like(a_)),
        c_(at::empty_like(a_)) {}
  double time(Held& held) {
    return held.each([this] { at::mm_out(c_, a_, b_); }, 1, 2);
  }

 private:
  at::Tensor a_, b_, c_;
};

// The longest that is short enough: eight times the work of half of it.
std::int64_t side_for(at::ScalarType type, Held& held) {
  const Bytes most = share_of_free(Bytes{1} << 30);
  std::int64_t side = kFirstSide;
  for (; side < kLastSide; side *= 2) {
    if (4 * side * side * static_cast<std::int64_t>(at::elementSize(type)) > most) break;
    Product product(side, type);
    product.time(held);
    if (8 * product.time(held) > kLongestProduct) break;
  }
  return side;
}

Rate dense_rate(const char* name, at::ScalarType type, bool tf32, const Deadline& deadline) {
  if (deadline.over()) return {"dense_tflops", name, std::nullopt, why_none(deadline)};
  const Tf32 precision(tf32);
  Held held;
  const std::int64_t side = side_for(type, held);
  Product small(side / 2, type), large(side, type);
  const auto how = fmt::format("matrix products of {} and {} a side", side / 2, side);
  return measured("dense_tflops", name, how, deadline, [&] {
    const double longer = large.time(held);  // flop/ns are GFLOP/s
    return 1e-3 * (flops(side) - flops(side / 2)) / (longer - small.time(held));
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
