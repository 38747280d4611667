// Parts that the oracles share: named tensors, products of matrices, and training with Adam, in
// double precision.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tidemark::reference {

using Values = std::vector<double>;

struct Tensor {
  std::string name;
  Values values;  // flat, row by row
};

struct Trained {
  std::vector<double> loss;        // of every step, before its update
  double condition = 1;            // largest of all steps: mean |output| / |mean output|
  std::vector<Tensor> gradients;   // of step 0
  std::vector<Tensor> parameters;  // after the last step
};

/// y [rows, out] = x [rows, in] w^T, with w [out, in].
Values product(const Values& x, const Values& w, std::size_t in);
/// Adds the gradients to dx and dw.
void product_backward(const Values& dy, const Values& x, const Values& w, std::size_t in,
                      Values& dx, Values& dw);

struct Adam {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

/// `gradients` returns a step's loss and writes the parameters' gradients, which have their sizes.
Trained train_with_adam(std::vector<Tensor> parameters, int steps, const Adam& adam,
                        const std::function<double(const std::vector<Tensor>&, int step,
                                                   std::vector<Values>&)>& gradients);

}  // namespace tidemark::reference
