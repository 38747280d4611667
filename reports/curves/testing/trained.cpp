#include "reports/curves/testing/trained.h"

#include <cmath>
#include <random>
#include <vector>

namespace tidemark {
namespace {

constexpr std::size_t kInputs = 16, kHidden = 12, kRows = 16;
constexpr float kRate = 0.05f;
using Values = std::vector<float>;

float bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

float added(const Values& terms, std::size_t from, std::size_t to, Order order) {
  float sum = 0;
  if (order == Order::pairwise && to - from > 2) {
    const std::size_t middle = (from + to) / 2;
    return added(terms, from, middle, order) + added(terms, middle, to, order);
  }
  for (std::size_t i = from; i < to; ++i) sum += terms[i];
  return sum;
}

/// A sum of `count` terms in fp32, in the training's order.
template <class Term>
float total(std::size_t count, Order order, Term term) {
  Values terms(count);
  for (std::size_t i = 0; i < count; ++i) terms[i] = term(i);
  return added(terms, 0, count, order);
}

}  // namespace

Curve trained(const Training& training) {
  std::mt19937_64 random(training.seed);
  std::normal_distribution<float> normal;
  const auto drawn = [&](std::size_t count, float size) {
    Values out(count);
    for (float& one : out) one = bf16(size * normal(random));
    return out;
  };
  const Values teacher = drawn(kInputs, 1);
  Values first = drawn(kHidden * kInputs, 0.3f), second = drawn(kHidden, 0.3f);
  Curve out{"loss", {}};
  const Order order = training.order;
  for (int step = 0; step < training.steps; ++step) {
    const Values x = drawn(kRows * kInputs, 1);
    Values hidden(kRows * kHidden), error(kRows), losses(kRows);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t h = 0; h < kHidden; ++h)
        hidden[r * kHidden + h] = bf16(std::tanh(bf16(total(kInputs, order, [&](std::size_t i) {
          return first[h * kInputs + i] * x[r * kInputs + i];
        }))));
      const float logit = bf16(total(
          kHidden, order, [&](std::size_t h) { return second[h] * hidden[r * kHidden + h]; }));
      const bool yes = total(kInputs, Order::forward,
                             [&](std::size_t i) { return teacher[i] * x[r * kInputs + i]; }) > 0;
      losses[r] = std::log1p(std::exp(yes ? -logit : logit));
      error[r] = bf16(1 / (1 + std::exp(-logit)) - (yes ? 1.0f : 0.0f));
    }
    out.points.push_back({step + 1, static_cast<double>(added(losses, 0, kRows, order) /
                                                        static_cast<float>(kRows))});
    const Values old = second;
    for (std::size_t h = 0; h < kHidden; ++h) {
      const float gradient = bf16(
          total(kRows, order, [&](std::size_t r) { return error[r] * hidden[r * kHidden + h]; }) /
          static_cast<float>(kRows));
      second[h] = bf16(second[h] - kRate * 4 * gradient);
      for (std::size_t i = 0; i < kInputs; ++i) {
        const float of = bf16(total(kRows, order,
                                    [&](std::size_t r) {
                                      const float a = hidden[r * kHidden + h];
                                      return error[r] * old[h] * (1 - a * a) * x[r * kInputs + i];
                                    }) /
                              static_cast<float>(kRows));
        first[h * kInputs + i] = bf16(first[h * kInputs + i] - kRate * 4 * of);
      }
    }
  }
  return out;
}

}  // namespace tidemark
