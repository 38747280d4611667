#include "reference/linear_chain.h"

#include <algorithm>
#include <cmath>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

using Values = std::vector<double>;

/// y += x w^T, with x [rows, in] and w [out, in].
void add_product(const Values& x, const Values& w, std::size_t rows, std::size_t in, Values& y) {
  const std::size_t out = w.size() / in;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = 0;
      for (std::size_t i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
      y[r * out + o] += sum;
    }
  }
}

/// dx += dy w, dw += dy^T x.
void add_backward(const Values& dy, const Values& x, const Values& w, std::size_t rows,
                  std::size_t in, Values& dx, Values& dw) {
  const std::size_t out = w.size() / in;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      const double d = dy[r * out + o];
      for (std::size_t i = 0; i < in; ++i) {
        dx[r * in + i] += d * w[o * in + i];
        dw[o * in + i] += d * x[r * in + i];
      }
    }
  }
}

struct Sums {
  double value = 0, size = 0;  // of the output's elements, with and without their signs
};

class Chain {
 public:
  explicit Chain(const LinearChainRun& run)
      : hidden_(static_cast<std::size_t>(run.hidden)),
        rank_(static_cast<std::size_t>(run.adapter_rank)),
        rows_(static_cast<std::size_t>(run.rows)) {
    for (std::int64_t l = 0; l < run.layers; ++l) {
      const auto layer = "layers." + std::to_string(l);
      parameters.push_back({layer + ".fc.weight", Values(hidden_ * hidden_)});
      if (rank_ > 0) {
        parameters.push_back({layer + ".adapter_fc_a.weight", Values(rank_ * hidden_)});
        parameters.push_back({layer + ".adapter_fc_b.weight", Values(hidden_ * rank_)});
      }
      shared_.emplace_back(hidden_, 0.0);
      if (run.shared_input) fill(run.seed, "shared." + std::to_string(l), 0, shared_.back());
    }
    for (auto& p : parameters) fill(run.seed, p.name, 0, p.values);
  }

  /// One microbatch: adds to `d` the gradients of scale x the sum of the output.
  Sums pass(const Values& input, double scale, std::vector<Values>& d) const {
    const std::size_t each = rank_ > 0 ? 3 : 1, layers = parameters.size() / each;
    std::vector<Values> x{input}, middle;
    for (std::size_t l = 0; l < layers; ++l) {
      const auto* p = &parameters[l * each];
      Values y(rows_ * hidden_);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = shared_[l][i % hidden_];
      add_product(x.back(), p[0].values, rows_, hidden_, y);
      if (rank_ > 0) {
        middle.emplace_back(rows_ * rank_);
        add_product(x.back(), p[1].values, rows_, hidden_, middle.back());
        add_product(middle.back(), p[2].values, rows_, rank_, y);
      }
      x.push_back(std::move(y));
    }
    Sums sums;
    for (const double v : x.back()) {
      sums.value += v;
      sums.size += std::abs(v);
    }
    Values dy(rows_ * hidden_, scale);
    for (std::size_t l = layers; l-- > 0;) {
      const auto* p = &parameters[l * each];
      Values dx(rows_ * hidden_);
      add_backward(dy, x[l], p[0].values, rows_, hidden_, dx, d[l * each]);
      if (rank_ > 0) {
        Values dmiddle(rows_ * rank_);
        add_backward(dy, middle[l], p[2].values, rows_, rank_, dmiddle, d[l * each + 2]);
        add_backward(dmiddle, x[l], p[1].values, rows_, hidden_, dx, d[l * each + 1]);
      }
      dy = std::move(dx);
    }
    return sums;
  }

  std::vector<Tensor> parameters;

 private:
  const std::size_t hidden_, rank_, rows_;
  std::vector<Values> shared_;
};

/// One parameter's Adam; a step in which it is frozen does not count.
struct Moments {
  Values first, second;
  int steps = 0;

  void update(const LinearChainRun& run, const Values& d, Values& p) {
    ++steps;
    const double c1 = 1 - std::pow(run.beta1, steps), c2 = 1 - std::pow(run.beta2, steps);
    for (std::size_t i = 0; i < d.size(); ++i) {
      first[i] = run.beta1 * first[i] + (1 - run.beta1) * d[i];
      second[i] = run.beta2 * second[i] + (1 - run.beta2) * d[i] * d[i];
      p[i] -= run.rate * (first[i] / c1) / (std::sqrt(second[i] / c2) + run.epsilon);
    }
  }
};

}  // namespace

LinearChainResult train(const LinearChainRun& run) {
  Chain chain(run);
  LinearChainResult result;
  std::vector<Moments> moments;
  for (const auto& p : chain.parameters)
    moments.push_back({Values(p.values.size()), Values(p.values.size())});
  Values input(static_cast<std::size_t>(run.rows * run.hidden));
  const double elements = static_cast<double>(input.size()) * static_cast<double>(run.microbatches);
  for (int step = 0; step < run.steps; ++step) {
    std::vector<Values> d;
    for (const auto& p : chain.parameters) d.emplace_back(p.values.size());
    Sums sums;
    for (std::int64_t m = 0; m < run.microbatches; ++m) {
      fill(run.seed, "input." + std::to_string(step) + "." + std::to_string(m), 0, input);
      const auto part = chain.pass(input, 1 / elements, d);
      sums.value += part.value;
      sums.size += part.size;
    }
    result.loss.push_back(sums.value / elements);
    result.condition = std::max(result.condition, sums.size / std::abs(sums.value));
    const auto& frozen = run.frozen[static_cast<std::size_t>(step)];
    for (std::size_t k = 0; k < d.size(); ++k) {
      if (frozen[k]) continue;
      if (step == 0) result.gradients.push_back({chain.parameters[k].name, d[k]});
      moments[k].update(run, d[k], chain.parameters[k].values);
    }
  }
  result.parameters = std::move(chain.parameters);
  return result;
}

}  // namespace tidemark::reference
