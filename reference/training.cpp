#include "reference/training.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

double norm_of(const at::Tensor& all) { return all.norm().item<double>(); }

/// One parameter's Adam.
class AdamState {
 public:
  AdamState(const Adam& adam, const at::Tensor& like)
      : adam_(adam),
        first_(at::zeros_like(like)),
        second_(at::zeros_like(like)),
        error_(at::zeros_like(like)) {}

  void update(const at::Tensor& gradient, at::Tensor& values) {
    ++steps_;
    const double c1 = 1 - std::pow(adam_.beta1, steps_), c2 = 1 - std::pow(adam_.beta2, steps_);
    const double even = norm_of(gradient) / std::sqrt(static_cast<double>(gradient.numel()));
    first_ = adam_.beta1 * first_ + (1 - adam_.beta1) * gradient;
    second_ = adam_.beta2 * second_ + (1 - adam_.beta2) * gradient * gradient;
    const at::Tensor size = (second_ / c2).sqrt() + adam_.epsilon;
    values -= adam_.rate / c1 * first_ / size;
    // Numerator and denominator; an element below 2^-24 of the others is not known at all, and it
    // moves its value by the rate at most. A gradient that has always been zero is one of nothing
    // (a token that does not occur).
    error_ += at::where(second_ > 0, 2 * adam_.rate * (even / size).clamp_max(0x1p24), 0.0);
  }

  /// Sensitivity of the loss to a relative error of 1 in every gradient norm. `gradient`: the
  /// loss's gradient at the updated parameters.
  double loss_sensitivity(const at::Tensor& gradient) const {
    return (gradient.abs() * error_).sum().item<double>();
  }
  /// Sensitivity of the values' norm to it, relative to the norm.
  double parameter_sensitivity(const at::Tensor& values) const {
    return norm_of(error_) / norm_of(values);
  }

 private:
  Adam adam_;
  int steps_ = 0;
  at::Tensor first_, second_, error_;  // error: of the value, for such errors of its gradients
};

}  // namespace

Tensor initial(std::uint64_t seed, const std::string& name, std::int64_t elements) {
  Tensor tensor{name, at::empty({elements}, at::kDouble)};
  fill(seed, name, 0,
       {tensor.values.mutable_data_ptr<double>(), static_cast<std::size_t>(elements)});
  return tensor;
}

Leaves leaves_of(const std::vector<Tensor>& parameters) {
  Leaves all;
  for (const Tensor& p : parameters) all.push_back(p.values.clone().requires_grad_(true));
  return all;
}

Trained train_with_adam(std::vector<Tensor> parameters, int steps, const Adam& adam,
                        const std::function<Loss(const Leaves&, int)>& pass,
                        const std::vector<std::vector<bool>>& frozen) {
  Trained result;
  result.parameters = std::move(parameters);
  auto& p = result.parameters;
  std::vector<AdamState> states;
  for (const Tensor& each : p) states.emplace_back(adam, each.values);
  for (int step = 0; step < steps; ++step) {
    const Leaves leaves = leaves_of(p);
    const Loss loss = pass(leaves, step);
    result.loss.push_back(loss.value);
    const at::NoGradGuard no_grad;
    double moved = 0;
    for (std::size_t k = 0; k < p.size(); ++k) {
      const at::Tensor& gradient = leaves[k].grad();
      moved += states[k].loss_sensitivity(gradient);
      if (!frozen.empty() && frozen[static_cast<std::size_t>(step)][k]) continue;
      if (step == 0) result.gradients.push_back({p[k].name, gradient});
      states[k].update(gradient, p[k].values);
    }
    result.condition = std::max(result.condition, loss.condition + moved / std::abs(loss.value));
  }
  for (std::size_t k = 0; k < p.size(); ++k)
    result.parameter_condition =
        std::max(result.parameter_condition, 1 + states[k].parameter_sensitivity(p[k].values));
  return result;
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, bool input_first) {
  const std::int64_t in = x.size(-1);
  return x.matmul(input_first ? weight.view({in, -1}) : weight.view({-1, in}).t());
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * (x.square().mean(-1, /*keepdim=*/true) + 1e-5).rsqrt() * weight;
}

}  // namespace tidemark::reference
