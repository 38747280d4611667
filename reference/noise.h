// Rounding errors drawn at random: what the arithmetic of a variant may make of the results of the
// reference's operators. A training that is run again with them is as far from the exact one as a
// variant may be (reference/spread.h).
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tidemark::reference {

/// Relative errors of numbers that are stored: 0 where they are stored as they are computed.
struct Precision {
  double activations = 0;  // also their gradients, and the weights that a product reads
  double parameters = 0;   // between steps, their summed gradients, and Adam's moments
  double reported = 0;     // of the loss alone, at most: what is rounded once it is computed
};
/// Half a unit in the last place of fp32 and of bf16, relative to the number.
inline constexpr double kSingle = 0x1p-24, kBfloat16 = 0x1p-9;

/// Multiplies what it is given by 1 + an error; the gradient that comes back is multiplied
/// likewise.
class Noise {
 public:
  Noise() = default;  // none: numbers stay as they are
  Noise(std::uint64_t seed, const Precision& precision);

  explicit operator bool() const { return generator_.defined(); }
  /// The result of an operator that adds up at most `terms` terms, as it is stored.
  at::Tensor rounded(const at::Tensor& result, double terms = 1);
  /// An input of a product of `terms` terms: of each of its sums the error is in proportion to the
  /// root of the sum of the squares of its terms.
  at::Tensor factor(const at::Tensor& input, double terms);
  /// A parameter after its update: elements that `moved` leaves out keep their value.
  at::Tensor stored(const at::Tensor& parameter, const at::Tensor& moved);
  /// A number that is computed from the squares of `terms` elements of gradients.
  at::Tensor total(const at::Tensor& number, double terms);
  /// A gradient that is multiplied where it is stored.
  at::Tensor scaled(const at::Tensor& gradient);
  /// Adam's step of a parameter, as it is computed from moments that are stored.
  at::Tensor update(const at::Tensor& step);
  /// The operators of a step come in the same order in every step, and each errs to its own side.
  void begin_pass() { operator_ = 0; }

 private:
  at::Tensor times(const at::Tensor& tensor, double each, double together);

  Precision precision_;
  std::uint64_t seed_ = 0, operator_ = 0;
  at::Generator generator_;
};

}  // namespace tidemark::reference
