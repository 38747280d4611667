#include "reference/linear_chain.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace tidemark::reference {
namespace {

/// By how many times more than those of a random walk (whose sum of n terms is sqrt(n) of them) the
/// terms cancel of which `value` is the sums and `size` the sums of their sizes; at least 1. So
/// many times larger are, relative to the sums, the errors of adding up and those that the terms
/// brought along.
double cancels(const at::Tensor& value, const at::Tensor& size, std::int64_t terms) {
  const double all = size.norm().item<double>();
  return all == 0 ? 1
                  : std::max(1.0, all / (std::sqrt(static_cast<double>(terms)) *
                                         value.norm().item<double>()));
}

/// A layer: y = x w^T + shared + (x a^T) b^T, where the last term is there with adapters.
struct Layer {
  at::Tensor shared;
  std::vector<at::Tensor> weights;  // w; with adapters a and b, too
  bool adapts() const { return weights.size() > 1; }
};

/// A layer's tensors of one microbatch.
struct Passed {
  at::Tensor x, inner, y;  // inner: x a^T
};

at::Tensor kept(at::Tensor value) {  // with its gradient
  value.retain_grad();
  return value;
}

class Chain {
 public:
  Chain(const LinearChainRun& run, const Leaves& leaves) : hidden_(run.hidden) {
    const std::size_t each = run.adapter_rank > 0 ? 3 : 1;
    for (std::int64_t l = 0; l < run.layers; ++l) {
      Layer& layer = layers_.emplace_back();
      const bool adds = run.shared_every > 0 && (l + 1) % run.shared_every == 0;
      layer.shared = adds ? initial(run.seed, "shared." + std::to_string(l), hidden_).values
                          : at::zeros({hidden_}, at::kDouble);
      const auto* first = &leaves[static_cast<std::size_t>(l) * each];
      layer.weights.push_back(first[0].view({hidden_, hidden_}));
      if (each == 1) continue;
      layer.weights.push_back(first[1].view({run.adapter_rank, hidden_}));
      layer.weights.push_back(first[2].view({hidden_, run.adapter_rank}));
    }
  }

  /// Leaves the gradients of scale times the sum of the output. Returns by how much all products on
  /// the way forth and back cancel, one after the other, and adds the sizes of the terms of every
  /// weight's gradient.
  double pass(const at::Tensor& input, double scale, Loss& sums, std::vector<at::Tensor>& sizes) {
    std::vector<Passed> passed;
    for (const Layer& layer : layers_) {
      const at::Tensor x = passed.empty() ? input : passed.back().y;
      const auto& w = layer.weights;
      Passed one{x, {}, x.matmul(w[0].t()) + layer.shared};
      if (layer.adapts()) {
        one.inner = kept(x.matmul(w[1].t()));
        one.y = one.y + one.inner.matmul(w[2].t());
      }
      one.y = kept(one.y);
      passed.push_back(one);
    }
    const at::Tensor& output = passed.back().y;
    (scale * output.sum()).backward();
    const at::NoGradGuard no_grad;
    sums.value += output.sum().item<double>();
    sums.condition += output.abs().sum().item<double>();
    double all = 1;
    std::size_t weight = 0;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const auto& w = layers_[l].weights;
      const auto& [x, inner, y] = passed[l];
      const at::Tensor ax = x.abs(), dy = y.grad().abs();
      at::Tensor size = ax.matmul(w[0].abs().t()) + layers_[l].shared.abs(),
                 back = dy.matmul(w[0].abs());
      sizes[weight++] += dy.t().matmul(ax).flatten();
      if (layers_[l].adapts()) {
        const at::Tensor d = inner.grad().abs();
        size += inner.abs().matmul(w[2].abs().t());
        back += d.matmul(w[1].abs());
        sizes[weight++] += d.t().matmul(ax).flatten();
        sizes[weight++] += dy.t().matmul(inner.abs()).flatten();
        all *= cancels(inner, ax.matmul(w[1].abs().t()), hidden_) *
               cancels(inner.grad(), dy.matmul(w[2].abs()), hidden_);
      }
      all *= cancels(y, size, hidden_);
      if (l > 0) all *= cancels(x.grad(), back, hidden_);  // the input's is not read
    }
    return all;
  }

 private:
  const std::int64_t hidden_;
  std::vector<Layer> layers_;
};

std::vector<Tensor> parameters_of(const LinearChainRun& run) {
  std::vector<Tensor> all;
  const std::int64_t h = run.hidden, rank = run.adapter_rank;
  for (std::int64_t l = 0; l < run.layers; ++l) {
    const auto layer = "layers." + std::to_string(l);
    all.push_back(initial(run.seed, layer + ".fc.weight", h * h));
    if (rank == 0) continue;
    all.push_back(initial(run.seed, layer + ".adapter_fc_a.weight", rank * h));
    all.push_back(initial(run.seed, layer + ".adapter_fc_b.weight", h * rank));
  }
  return all;
}

}  // namespace

LinearChainResult train(const LinearChainRun& run) {
  double gradient_condition = 1;
  const auto elements = static_cast<double>(run.rows * run.hidden * run.microbatches);
  LinearChainResult result{train_with_adam(
      parameters_of(run), run.steps, run.adam,
      [&](const Leaves& leaves, int step) {
        Chain chain(run, leaves);
        std::vector<at::Tensor> sizes;
        for (const at::Tensor& leaf : leaves) sizes.push_back(at::zeros_like(leaf));
        Loss sums{0, 0};
        double worst = 1;
        for (std::int64_t m = 0; m < run.microbatches; ++m) {
          const auto name = "input." + std::to_string(step) + "." + std::to_string(m);
          const at::Tensor input =
              initial(run.seed, name, run.rows * run.hidden).values.view({run.rows, run.hidden});
          worst = std::max(worst, chain.pass(input, 1 / elements, sums, sizes));
        }
        for (std::size_t k = 0; k < leaves.size(); ++k)
          if (!run.frozen[static_cast<std::size_t>(step)][k])
            gradient_condition =
                std::max(gradient_condition,
                         worst * cancels(leaves[k].grad(), sizes[k], run.rows * run.microbatches));
        return Loss{sums.value / elements, sums.condition / std::abs(sums.value)};
      },
      run.frozen)};
  result.gradient_condition = gradient_condition;
  return result;
}

}  // namespace tidemark::reference
