// Parts that the oracles share: named tensors, and training with Adam, in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/operators.h"

namespace tidemark::reference {

struct Tensor {
  std::string name;
  Values values;  // flat, row by row
};

/// With its first numbers (reference/deterministic.h).
Tensor initial(std::uint64_t seed, const std::string& name, std::int64_t elements);

/// The conditions are of all steps the largest, and to first order.
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

/// One parameter's Adam. A step without an update (the parameter is frozen) does not count.
class AdamState {
 public:
  AdamState(const Adam& adam, std::size_t elements);

  /// `gradient` and `values` have `elements` each.
  void update(const Values& gradient, Values& values);
  /// What errors of 1 in parts of the gradients' norms make of the loss, whose gradient at the
  /// updated values this is.
  double moves(const Values& gradient) const;
  /// The same for the norm of the values, relative to it.
  double sways(const Values& values) const;

 private:
  Adam adam_;
  int steps_ = 0;
  Values first_, second_, swing_;  // swing: what such an error makes of the value
};

/// sqrt(sum of squares).
double norm(const Values& all);

struct Loss {
  double value = 0;
  double condition = 1;  // mean |terms| / |mean|
};

/// A leaf for each parameter, in their order.
std::vector<Operand> leaves(Tape& tape, const std::vector<Tensor>& parameters);

/// `pass` returns a step's loss and leaves the gradients of the parameters.
Trained train_with_adam(
    std::vector<Tensor> parameters, int steps, const Adam& adam,
    const std::function<Loss(Tape&, const std::vector<Operand>& parameters, int step)>& pass);

}  // namespace tidemark::reference
