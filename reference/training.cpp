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
        scale_(at::zeros_like(like)) {}

  void update(const at::Tensor& gradient, at::Tensor& values, Noise& noise, double rate) {
    ++steps_;
    const double c1 = 1 - std::pow(adam_.beta1, steps_), c2 = 1 - std::pow(adam_.beta2, steps_);
    const double even = norm_of(gradient) / std::sqrt(static_cast<double>(gradient.numel()));
    first_ = adam_.beta1 * first_ + (1 - adam_.beta1) * gradient;
    second_ = adam_.beta2 * second_ + (1 - adam_.beta2) * gradient * gradient;
    const at::Tensor size = (second_ / c2).sqrt() + adam_.epsilon;
    const at::Tensor step = noise.update(rate / c1 * first_ / size);
    if (adam_.decay > 0) values = noise.stored(values * (1 - rate * adam_.decay), values);
    values = values - step;
    values = noise.stored(values, step);
    // Numerator and denominator; an element below 2^-24 of the others is not known at all.
    // Gradients are taken to be off by 16 times what a value is when it is stored. A gradient that
    // has always been zero is one of nothing (a token that does not occur).
    scale_ +=
        at::where(second_ > 0, 32 * rate * (even / size).clamp_max(0x1p24) + values.abs(), 0.0);
  }

  /// Trained::scales.
  at::Tensor scale() const {
    const double largest = scale_.max().item<double>();
    return largest > 0 ? scale_.clamp_min(largest * 0x1p-40) : at::ones_like(scale_);
  }

 private:
  Adam adam_;
  int steps_ = 0;
  at::Tensor first_, second_, scale_;
};

/// Scales the gradients down to the norm that they may have together. Each is multiplied by the
/// same number, whose error is that of a sum over all of them.
void clip(const std::vector<at::Tensor*>& gradients, double norm, Noise& noise) {
  at::Tensor squares = at::zeros({}, at::kDouble);
  double elements = 0;
  for (const at::Tensor* each : gradients) {
    squares += each->square().sum();
    elements += static_cast<double>(each->numel());
  }
  const at::Tensor factor = noise.total(norm / (squares.sqrt() + 1e-6), elements).clamp_max(1);
  for (at::Tensor* each : gradients) *each = noise.scaled(*each * factor);
}

}  // namespace

Tensor initial(std::uint64_t seed, const std::string& name, std::int64_t elements, double step) {
  Tensor tensor{name, at::empty({elements}, at::kDouble)};
  fill(seed, name, 0,
       {tensor.values.mutable_data_ptr<double>(), static_cast<std::size_t>(elements)}, step);
  return tensor;
}

Leaves leaves_of(const std::vector<Tensor>& parameters) {
  Leaves all;
  for (const Tensor& p : parameters) all.push_back(p.values.clone().requires_grad_(true));
  return all;
}

Trained train_with_adam(std::vector<Tensor> parameters, int steps, const Adam& adam,
                        const std::function<double(const Leaves&, int)>& pass, Noise& noise,
                        const std::vector<std::vector<bool>>& frozen) {
  Trained result;
  result.parameters = std::move(parameters);
  auto& p = result.parameters;
  std::vector<AdamState> states;
  for (const Tensor& each : p) states.emplace_back(adam, each.values);
  for (int step = 0; step < steps; ++step) {
    const Leaves leaves = leaves_of(p);
    noise.begin_pass();
    result.loss.push_back(pass(leaves, step));
    const at::NoGradGuard no_grad;
    const auto now = static_cast<std::size_t>(step);
    const auto is_frozen = [&](std::size_t k) { return !frozen.empty() && frozen[now][k]; };
    std::vector<at::Tensor> gradients(p.size());
    std::vector<at::Tensor*> trained;
    for (std::size_t k = 0; k < p.size(); ++k) {
      gradients[k] = leaves[k].grad();
      if (!is_frozen(k)) trained.push_back(&gradients[k]);
    }
    if (adam.clip > 0) clip(trained, adam.clip, noise);
    const double rate = adam.rates.empty() ? adam.rate : adam.rates.at(now);
    for (std::size_t k = 0; k < p.size(); ++k) {
      if (is_frozen(k)) continue;
      if (step == 0) result.gradients.push_back({p[k].name, gradients[k]});
      states[k].update(gradients[k], p[k].values, noise, rate);
    }
  }
  for (const AdamState& state : states) result.scales.push_back(state.scale());
  return result;
}

at::Tensor product(Noise& noise, const at::Tensor& x, const at::Tensor& weight, bool input_first) {
  const std::int64_t in = x.size(-1), out = weight.numel() / in;
  const auto terms = static_cast<double>(std::max({in, out, x.numel() / in}));
  const at::Tensor matrix = input_first ? weight.view({in, out}) : weight.view({out, in}).t();
  return noise.rounded(noise.factor(x, terms).matmul(noise.factor(matrix, terms)), terms);
}

at::Tensor rms_norm(Noise& noise, const at::Tensor& x, const at::Tensor& weight) {
  const auto terms = static_cast<double>(x.size(-1));
  const at::Tensor mean = noise.rounded(x.square().mean(-1, /*keepdim=*/true), terms);
  return noise.rounded(noise.rounded(x * (mean + 1e-5).rsqrt()) * weight, terms);
}

}  // namespace tidemark::reference
