#include "harness/parallel/adam.h"

#include <ATen/ATen.h>

#include <cmath>

#include "harness/recorder.h"

namespace tidemark {

void Adam::step(const std::vector<at::Tensor>& parameters,
                const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  if (first_.empty()) {
    const CategoryScope category("optimizer state");
    for (const auto& p : parameters) {
      first_.push_back(at::zeros_like(p));
      second_.push_back(at::zeros_like(p));
    }
  }
  const CategoryScope category("temporaries");
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const double rate = options_.rate / (1 - std::pow(options_.beta1, t)) * -1;
  const double root = std::sqrt(1 - std::pow(options_.beta2, t));
  const std::vector<at::Scalar> rates(parameters.size(), rate), roots(parameters.size(), root);

  at::_foreach_lerp_(first_, gradients, 1 - options_.beta1);
  at::_foreach_mul_(second_, options_.beta2);
  at::_foreach_addcmul_(second_, gradients, gradients, 1 - options_.beta2);
  auto denominator = at::_foreach_sqrt(second_);
  at::_foreach_div_(denominator, roots);
  at::_foreach_add_(denominator, options_.epsilon);
  at::_foreach_addcdiv_(parameters, first_, denominator, rates);
}

}  // namespace tidemark
