#include "harness/parallel/adam.h"

#include <ATen/ATen.h>

#include <cmath>

#include "harness/measure/recorder.h"

namespace tidemark {

void Adam::step(const std::vector<at::Tensor>& parameters,
                const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> first, second;  // moments
  std::vector<at::Scalar> rates, roots;
  for (const auto& p : parameters) {
    auto& state = states_[p.unsafeGetTensorImpl()];
    if (!state.first.defined()) {
      const CategoryScope category(MemoryKind::optimizer_state);
      state.parameter = p;
      state.first = at::zeros_like(p);
      state.second = at::zeros_like(p);
    }
    const auto t = static_cast<double>(++state.steps);
    first.push_back(state.first);
    second.push_back(state.second);
    rates.emplace_back(options_.rate / (1 - std::pow(options_.beta1, t)) * -1);
    roots.emplace_back(std::sqrt(1 - std::pow(options_.beta2, t)));
  }
  if (parameters.empty()) return;
  const CategoryScope category(MemoryKind::optimizer_temporaries);
  if (options_.decay != 0) at::_foreach_mul_(parameters, 1 - options_.rate * options_.decay);
  at::_foreach_lerp_(first, gradients, 1 - options_.beta1);
  at::_foreach_mul_(second, options_.beta2);
  at::_foreach_addcmul_(second, gradients, gradients, 1 - options_.beta2);
  auto denominator = at::_foreach_sqrt(second);
  at::_foreach_div_(denominator, roots);
  at::_foreach_add_(denominator, options_.epsilon);
  at::_foreach_addcdiv_(parameters, first, denominator, rates);
}

}  // namespace tidemark
