// Adam over a list of tensors with the operators and temporaries of torch.optim.Adam's default on a
// GPU (foreach, not capturable): one temporary as large as all parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tidemark {

struct AdamOptions {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

class Adam {
 public:
  /// Its state (two tensors a parameter) is made in the first step.
  explicit Adam(AdamOptions options = {}) : options_(options) {}
  /// parameters[i] -= update from gradients[i]; the lists must be the same ones in every step.
  void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);

 private:
  AdamOptions options_;
  std::int64_t steps_ = 0;
  std::vector<at::Tensor> first_, second_;  // moments
};

}  // namespace tidemark
