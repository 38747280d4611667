#include "reference/linear_chain.h"

#include <algorithm>
#include <cmath>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

/// Sums, and the same of their terms' sizes.
struct Summed {
  Values value, size;
  explicit Summed(std::size_t n) : value(n), size(n) {}
  void add(std::size_t i, double term) {
    value[i] += term;
    size[i] += std::abs(term);
  }
  /// By how many times more than those of a random walk (whose sum of n terms is sqrt(n) of them)
  /// the terms cancel; at least 1. So many times larger are, relative to the sums, the errors of
  /// adding up and those that the terms brought along.
  double cancels(double terms) const {
    const double all = norm(size);
    return all == 0 ? 1 : std::max(1.0, all / (std::sqrt(terms) * norm(value)));
  }
};

/// y += x w^T, with x [rows, in] and w [out, in].
void add_product(const Values& x, const Values& w, std::size_t rows, std::size_t in, Summed& y) {
  const std::size_t out = w.size() / in;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) y.add(r * out + o, x[r * in + i] * w[o * in + i]);
}

/// dx += dy w, dw += dy^T x.
void add_backward(const Values& dy, const Values& x, const Values& w, std::size_t rows,
                  std::size_t in, Summed& dx, Summed& dw) {
  const std::size_t out = w.size() / in;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      const double d = dy[r * out + o];
      for (std::size_t i = 0; i < in; ++i) {
        dx.add(r * in + i, d * w[o * in + i]);
        dw.add(o * in + i, d * x[r * in + i]);
      }
    }
  }
}

struct Sums {
  double value = 0, size = 0;  // of the output's elements, with and without their signs
  double cancels = 1;          // of all products on the way forth and back, one after the other
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
      if (run.shared_every > 0 && (l + 1) % run.shared_every == 0)
        fill(run.seed, "shared." + std::to_string(l), 0, shared_.back());
    }
    for (auto& p : parameters) fill(run.seed, p.name, 0, p.values);
  }

  /// One microbatch: adds to `d` the gradients of scale x the sum of the output.
  Sums pass(const Values& input, double scale, std::vector<Summed>& d) const {
    const std::size_t each = rank_ > 0 ? 3 : 1, layers = parameters.size() / each;
    const auto wide = static_cast<double>(hidden_);
    Sums sums;
    std::vector<Values> x{input}, middle;
    for (std::size_t l = 0; l < layers; ++l) {
      const auto* p = &parameters[l * each];
      Summed y(rows_ * hidden_);
      for (std::size_t i = 0; i < rows_ * hidden_; ++i) y.add(i, shared_[l][i % hidden_]);
      add_product(x.back(), p[0].values, rows_, hidden_, y);
      if (rank_ > 0) {
        Summed inner(rows_ * rank_);
        add_product(x.back(), p[1].values, rows_, hidden_, inner);
        sums.cancels *= inner.cancels(wide);
        middle.push_back(std::move(inner.value));
        add_product(middle.back(), p[2].values, rows_, rank_, y);
      }
      sums.cancels *= y.cancels(wide);
      x.push_back(std::move(y.value));
    }
    for (const double v : x.back()) {
      sums.value += v;
      sums.size += std::abs(v);
    }
    Values dy(rows_ * hidden_, scale);
    for (std::size_t l = layers; l-- > 0;) {
      const auto* p = &parameters[l * each];
      Summed dx(rows_ * hidden_);
      add_backward(dy, x[l], p[0].values, rows_, hidden_, dx, d[l * each]);
      if (rank_ > 0) {
        Summed dmiddle(rows_ * rank_);
        add_backward(dy, middle[l], p[2].values, rows_, rank_, dmiddle, d[l * each + 2]);
        sums.cancels *= dmiddle.cancels(wide);
        add_backward(dmiddle.value, x[l], p[1].values, rows_, hidden_, dx, d[l * each + 1]);
      }
      if (l > 0) sums.cancels *= dx.cancels(wide);  // the input's is not read
      dy = std::move(dx.value);
    }
    return sums;
  }

  std::vector<Tensor> parameters;

 private:
  const std::size_t hidden_, rank_, rows_;
  std::vector<Values> shared_;
};

}  // namespace

LinearChainResult train(const LinearChainRun& run) {
  Chain chain(run);
  LinearChainResult result;
  std::vector<AdamState> states;
  for (const auto& p : chain.parameters) states.emplace_back(run.adam, p.values.size());
  Values input(static_cast<std::size_t>(run.rows * run.hidden));
  const double elements = static_cast<double>(input.size()) * static_cast<double>(run.microbatches);
  for (int step = 0; step < run.steps; ++step) {
    std::vector<Summed> d;
    for (const auto& p : chain.parameters) d.emplace_back(p.values.size());
    Sums sums;
    for (std::int64_t m = 0; m < run.microbatches; ++m) {
      fill(run.seed, "input." + std::to_string(step) + "." + std::to_string(m), 0, input);
      const auto part = chain.pass(input, 1 / elements, d);
      sums.value += part.value;
      sums.size += part.size;
      sums.cancels = std::max(sums.cancels, part.cancels);
    }
    result.loss.push_back(sums.value / elements);
    double moved = 0;
    for (std::size_t k = 0; k < d.size(); ++k) moved += states[k].moves(d[k].value);
    result.condition =
        std::max(result.condition, (sums.size + elements * moved) / std::abs(sums.value));
    const auto& frozen = run.frozen[static_cast<std::size_t>(step)];
    for (std::size_t k = 0; k < d.size(); ++k) {
      if (frozen[k]) continue;
      result.gradient_condition =
          std::max(result.gradient_condition,
                   sums.cancels * d[k].cancels(static_cast<double>(run.rows * run.microbatches)));
      if (step == 0) result.gradients.push_back({chain.parameters[k].name, d[k].value});
      states[k].update(d[k].value, chain.parameters[k].values);
    }
  }
  for (std::size_t k = 0; k < states.size(); ++k)
    result.parameter_condition =
        std::max(result.parameter_condition, 1 + states[k].sways(chain.parameters[k].values));
  result.parameters = std::move(chain.parameters);
  return result;
}

}  // namespace tidemark::reference
