// Parts that the oracles share: named tensors, and training with Adam, in double precision by ATen
// and autograd on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tidemark::reference {

struct Tensor {
  std::string name;
  at::Tensor values;  // float64 on the CPU, flat, row by row
};

/// With its first numbers (reference/deterministic.h).
Tensor initial(std::uint64_t seed, const std::string& name, std::int64_t elements);

/// The conditions are the largest of all steps, to first order.
struct Trained {
  std::vector<double> loss;  // of every step, before its update
  /// By how many times more than a gradient the loss may be off, relative to itself: by what
  /// cancels in it (mean |output| / |mean output| of a mean), and by the errors of the parameters
  /// times its gradient, summed as if all had its sign.
  double condition = 1;
  /// And a parameter: Adam divides a gradient by its own size, element by element, and what is off
  /// in proportion to the tensor's norm is more than that in a small element.
  double parameter_condition = 1;
  std::vector<Tensor> gradients;   // of step 0
  std::vector<Tensor> parameters;  // after the last step
};

struct Adam {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

struct Loss {
  double value = 0;
  double condition = 1;  // mean |terms| / |mean|
};

/// Flat leaves that take gradients, one for each parameter.
using Leaves = std::vector<at::Tensor>;
Leaves leaves_of(const std::vector<Tensor>& parameters);

/// `pass` returns a step's loss and leaves the gradients in the leaves. `frozen`: by step, whether
/// each parameter is left as it is; a frozen one's step does not count for its Adam.
Trained train_with_adam(std::vector<Tensor> parameters, int steps, const Adam& adam,
                        const std::function<Loss(const Leaves& parameters, int step)>& pass,
                        const std::vector<std::vector<bool>>& frozen = {});

/// x [rows, in] times a flat weight [out, in], or [in, out] with `input_first`.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, bool input_first = false);
/// x / sqrt(mean square of the row + 1e-5) * weight.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight);

}  // namespace tidemark::reference
