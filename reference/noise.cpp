#include "reference/noise.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tidemark::reference {
namespace {

/// Sums of n terms in single precision, one after the other: addition k is off by at most u |S_k|,
/// where S_k is the sum of the first k terms, and evenly spread errors have a third of that as the
/// mean of their squares. |S_k| is at most the whole sum's size where the terms have one sign, and
/// that of a random walk where they have not, so that the n errors together are u sqrt(n / 3) times
/// the larger of the two.
double of_sum(double terms) { return kSingle * std::sqrt(terms / 3); }
/// Elementwise functions of PyTorch's libraries are off by at most two units in the last place, and
/// perhaps all to one side.
constexpr double kTogether = 4 * kSingle;
/// One operator (a norm, a GELU) and its gradient take up to 16 roundings one after the other,
/// which add up like a random walk.
constexpr double kOperator = 4 * kSingle;
/// Root of the mean square of errors that are spread evenly up to 1.
const double kEven = 1 / std::sqrt(3.0);

}  // namespace

Noise::Noise(std::uint64_t seed, const Precision& precision)
    : precision_(precision), seed_(seed), generator_(at::detail::createCPUGenerator(seed)) {}

at::Tensor Noise::times(const at::Tensor& tensor, double each, double together) {
  std::mt19937_64 engine(seed_ * 0x9e3779b97f4a7c15u + operator_++);
  const double side = std::normal_distribution<double>()(engine) * together;
  at::Tensor errors;
  {
    const at::NoGradGuard no_grad;
    // Evenly spread, with `each` as the root of the mean of their squares.
    errors = at::rand(tensor.sizes(), generator_, at::TensorOptions().dtype(at::kDouble));
    errors = (errors - 0.5) * (each * std::sqrt(12.0)) + (1 + side);
  }
  return tensor * errors;
}

at::Tensor Noise::rounded(const at::Tensor& result, double terms) {
  if (!*this) return result;
  return times(result, std::hypot(of_sum(terms), kOperator, kEven * precision_.activations),
               kTogether);
}

at::Tensor Noise::factor(const at::Tensor& input, double terms) {
  if (!*this) return input;
  return times(input, std::hypot(of_sum(terms), kEven * precision_.activations), 0);
}

at::Tensor Noise::stored(const at::Tensor& parameter, const at::Tensor& moved) {
  if (!*this) return parameter;
  // A step of less than half a unit in the last place is lost, whatever it was: in bf16 that is no
  // error that averages out, so the rounding is the real one.
  if (precision_.parameters >= kBfloat16)
    return at::where(moved != 0, parameter.to(at::kBFloat16).to(at::kDouble), parameter);
  return at::where(moved != 0, times(parameter, kEven * kSingle, 0), parameter);
}

at::Tensor Noise::total(const at::Tensor& number, double terms) {
  if (!*this) return number;
  return times(number, std::hypot(of_sum(terms), kOperator, kEven * precision_.parameters),
               kTogether);
}

at::Tensor Noise::scaled(const at::Tensor& gradient) {
  if (!*this) return gradient;
  return times(gradient, kEven * std::max(kSingle, precision_.parameters), 0);
}

at::Tensor Noise::update(const at::Tensor& step) {
  if (!*this) return step;
  // Two moments, their quotient, and a dozen roundings in single precision on the way.
  return times(step, std::hypot(2 * kEven * precision_.parameters, kOperator), kTogether);
}

}  // namespace tidemark::reference
