#include "reference/training.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/deterministic.h"

namespace tidemark::reference {

Tensor initial(std::uint64_t seed, const std::string& name, std::int64_t elements) {
  Tensor tensor{name, Values(static_cast<std::size_t>(elements))};
  fill(seed, name, 0, tensor.values);
  return tensor;
}

double norm(const Values& all) {
  double squares = 0;
  for (const double v : all) squares += v * v;
  return std::sqrt(squares);
}

AdamState::AdamState(const Adam& adam, std::size_t elements)
    : adam_(adam), first_(elements), second_(elements), swing_(elements) {}

void AdamState::update(const Values& gradient, Values& values) {
  ++steps_;
  const double c1 = 1 - std::pow(adam_.beta1, steps_), c2 = 1 - std::pow(adam_.beta2, steps_);
  const double even = norm(gradient) / std::sqrt(static_cast<double>(gradient.size()));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double g = gradient[i];
    first_[i] = adam_.beta1 * first_[i] + (1 - adam_.beta1) * g;
    second_[i] = adam_.beta2 * second_[i] + (1 - adam_.beta2) * g * g;
    const double size = std::sqrt(second_[i] / c2) + adam_.epsilon;
    values[i] -= adam_.rate * (first_[i] / c1) / size;
    // Numerator and denominator; below 2^-24 of the others nobody knows it, and it moves its value
    // by the rate at most. A gradient that has always been zero is one of nothing (a token that
    // does not occur).
    if (second_[i] > 0) swing_[i] += 2 * adam_.rate * std::min(even / size, 0x1p24);
  }
}

double AdamState::moves(const Values& gradient) const {
  double sum = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) sum += std::abs(gradient[i]) * swing_[i];
  return sum;
}

double AdamState::sways(const Values& values) const { return norm(swing_) / norm(values); }

std::vector<Operand> leaves(Tape& tape, const std::vector<Tensor>& parameters) {
  std::vector<Operand> all;
  for (const auto& p : parameters) all.push_back(tape.leaf(p.values));
  return all;
}

Trained train_with_adam(std::vector<Tensor> parameters, int steps, const Adam& adam,
                        const std::function<Loss(Tape&, const std::vector<Operand>&, int)>& pass) {
  Trained result;
  result.parameters = std::move(parameters);
  auto& p = result.parameters;
  std::vector<AdamState> states;
  for (const auto& each : p) states.emplace_back(adam, each.values.size());
  for (int step = 0; step < steps; ++step) {
    Tape tape;
    const auto variables = leaves(tape, p);
    const Loss loss = pass(tape, variables, step);
    result.loss.push_back(loss.value);
    double moved = 0;
    for (std::size_t k = 0; k < p.size(); ++k) {
      const Values& gradient = variables[k]->gradient;
      moved += states[k].moves(gradient);
      if (step == 0) result.gradients.push_back({p[k].name, gradient});
      states[k].update(gradient, p[k].values);
    }
    result.condition = std::max(result.condition, loss.condition + moved / std::abs(loss.value));
  }
  for (std::size_t k = 0; k < p.size(); ++k)
    result.parameter_condition =
        std::max(result.parameter_condition, 1 + states[k].sways(p[k].values));
  return result;
}

}  // namespace tidemark::reference
