// Adam over a list of tensors with the operators and temporaries of torch.optim.Adam's default on a
// GPU (foreach, not capturable): one temporary as large as all parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tidemark {

struct AdamOptions {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double decay = 0;  // of a parameter, in parts of the rate (AdamW)
};

class Adam {
 public:
  /// A parameter's state (two tensors and a count) is made in its first step.
  explicit Adam(AdamOptions options = {}) : options_(options) {}
  /// The rate of the steps from now on.
  void set_rate(double rate) { options_.rate = rate; }
  /// parameters[i] -= update from gradients[i]. A parameter is known by its tensor object, as in
  /// torch.optim: pass the same one in every step, not a new view of it. Those that a step leaves
  /// out keep their state.
  void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);

 private:
  struct State {
    at::Tensor parameter;      // held: the address below stays its own
    at::Tensor first, second;  // moments
    std::int64_t steps = 0;
  };
  AdamOptions options_;
  std::unordered_map<c10::TensorImpl*, State> states_;  // looked up only
};

}  // namespace tidemark
