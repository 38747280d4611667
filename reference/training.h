// Parts that the oracles share: named tensors, and training with Adam, in double precision by ATen
// and autograd on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/noise.h"

namespace tidemark::reference {

struct Tensor {
  std::string name;
  at::Tensor values;  // float64 on the CPU, flat, row by row
};

/// With its first numbers (reference/deterministic.h).
Tensor initial(std::uint64_t seed, const std::string& name, std::int64_t elements, double step = 0);

struct Trained {
  std::vector<double> loss;        // of every step, before its update
  std::vector<Tensor> gradients;   // of step 0, clipped
  std::vector<Tensor> parameters;  // after the last step
  /// In what parts the errors of each parameter are measured, element by element: Adam divides a
  /// gradient by its own size, so what is off by a part of the whole gradient is more than that in
  /// an element with a small one.
  std::vector<at::Tensor> scales;
};

struct Adam {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double decay = 0;                // of a parameter, in parts of the rate (AdamW)
  double clip = 0;                 // the largest norm of all gradients together; 0: any
  std::vector<double> rates = {};  // by step; empty: always `rate`
};

/// Flat leaves that take gradients, one for each parameter.
using Leaves = std::vector<at::Tensor>;
Leaves leaves_of(const std::vector<Tensor>& parameters);

/// `pass` returns a step's loss and leaves the gradients in the leaves. `frozen`: by step, whether
/// each parameter is left as it is; a frozen one's step does not count for its Adam. `noise` errs
/// in what Adam computes and stores; `pass` has its own part of it.
Trained train_with_adam(std::vector<Tensor> parameters, int steps, const Adam& adam,
                        const std::function<double(const Leaves& parameters, int step)>& pass,
                        Noise& noise, const std::vector<std::vector<bool>>& frozen = {});

/// x [rows, in] times a flat weight [out, in], or [in, out] with `input_first`. The longest sum of
/// the product, its gradients' included, is one of in, out or rows terms.
at::Tensor product(Noise& noise, const at::Tensor& x, const at::Tensor& weight,
                   bool input_first = false);
/// x / sqrt(mean square of the row + 1e-5) * weight.
at::Tensor rms_norm(Noise& noise, const at::Tensor& x, const at::Tensor& weight);

}  // namespace tidemark::reference
