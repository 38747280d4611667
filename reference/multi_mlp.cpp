#include "reference/multi_mlp.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

struct Size {
  std::size_t rows, hidden;
};

/// Kept of a norm for its backward: the normalised input and 1 / standard deviation of every row.
struct Norm {
  Values normalised, scale;
};

Values norm(const Values& x, const Values& weight, Size n, Norm& kept) {
  Values y(x.size());
  kept = {Values(x.size()), Values(n.rows)};
  for (std::size_t r = 0; r < n.rows; ++r) {
    const double* row = &x[r * n.hidden];
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < n.hidden; ++j) mean += row[j];
    mean /= static_cast<double>(n.hidden);
    for (std::size_t j = 0; j < n.hidden; ++j) variance += (row[j] - mean) * (row[j] - mean);
    variance /= static_cast<double>(n.hidden);
    kept.scale[r] = 1 / std::sqrt(variance + 1e-5);
    for (std::size_t j = 0; j < n.hidden; ++j) {
      const auto i = r * n.hidden + j;
      kept.normalised[i] = (row[j] - mean) * kept.scale[r];
      y[i] = kept.normalised[i] * weight[j];
    }
  }
  return y;
}

Values norm_backward(const Values& dy, const Values& weight, const Norm& kept, Size n,
                     Values& dweight) {
  Values dx(dy.size());
  for (std::size_t r = 0; r < n.rows; ++r) {
    double sum = 0, dot = 0;
    for (std::size_t j = 0; j < n.hidden; ++j) {
      const auto i = r * n.hidden + j;
      dweight[j] += dy[i] * kept.normalised[i];
      sum += dy[i] * weight[j];
      dot += dy[i] * weight[j] * kept.normalised[i];
    }
    sum /= static_cast<double>(n.hidden);
    dot /= static_cast<double>(n.hidden);
    for (std::size_t j = 0; j < n.hidden; ++j) {
      const auto i = r * n.hidden + j;
      dx[i] = kept.scale[r] * (dy[i] * weight[j] - sum - kept.normalised[i] * dot);
    }
  }
  return dx;
}

/// The gradient of x; adds to dw.
Values through(const Values& dy, const Values& x, const Values& w, Size n, Values& dw) {
  Values dx(x.size());
  product_backward(dy, x, w, n.hidden, dx, dw);
  return dx;
}

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double gelu_slope(double x) {
  const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
}

struct Block {
  Values input, wide, active;  // of the block, of gelu, and after it
};

/// One forward and backward: the loss and by how much it cancels, and gradients in the parameters'
/// order.
Loss gradients(const std::vector<Tensor>& p, const Values& input, Size n, std::vector<Values>& d) {
  const auto layers = (p.size() - 2) / 2;
  Norm first, last;
  std::vector<Block> blocks(layers);
  Values x = norm(input, p.front().values, n, first);
  for (std::size_t l = 0; l < layers; ++l) {
    auto& b = blocks[l];
    b.input = x;
    b.wide = product(x, p[1 + 2 * l].values, n.hidden);
    b.active = b.wide;
    for (auto& v : b.active) v = gelu(v);
    const Values out = product(b.active, p[2 + 2 * l].values, n.hidden);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += out[i];
  }
  const Values y = norm(x, p.back().values, n, last);
  double loss = 0, terms = 0;
  for (const double v : y) {
    loss += v;
    terms += std::abs(v);
  }
  const double condition = terms / std::abs(loss);
  loss /= static_cast<double>(y.size());

  for (std::size_t k = 0; k < p.size(); ++k) d[k].assign(p[k].values.size(), 0);
  const Values dy(y.size(), 1 / static_cast<double>(y.size()));
  Values dx = norm_backward(dy, p.back().values, last, n, d.back());
  for (std::size_t l = layers; l-- > 0;) {
    const auto& b = blocks[l];
    Values dwide = through(dx, b.active, p[2 + 2 * l].values, n, d[2 + 2 * l]);
    for (std::size_t i = 0; i < dwide.size(); ++i) dwide[i] *= gelu_slope(b.wide[i]);
    const Values more = through(dwide, b.input, p[1 + 2 * l].values, n, d[1 + 2 * l]);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += more[i];
  }
  norm_backward(dx, p.front().values, first, n, d.front());
  return {loss, condition};
}

std::vector<Tensor> initial(const MultiMlpRun& run) {
  const auto h = static_cast<std::size_t>(run.hidden);
  std::vector<Tensor> p{{"pre_norm.weight", Values(h)}};
  for (std::int64_t l = 0; l < run.layers; ++l) {
    const auto block = "mlps." + std::to_string(l);
    p.push_back({block + ".fc1.weight", Values(h * h)});
    p.push_back({block + ".fc2.weight", Values(h * h)});
  }
  p.push_back({"post_norm.weight", Values(h)});
  for (auto& t : p) fill(run.seed, t.name, 0, t.values);
  return p;
}

}  // namespace

Trained train(const MultiMlpRun& run) {
  const Size n{static_cast<std::size_t>(run.rows), static_cast<std::size_t>(run.hidden)};
  Values input(n.rows * n.hidden);
  return train_with_adam(initial(run), run.steps, run.adam,
                         [&](const auto& p, int step, std::vector<Values>& d) {
                           fill(run.seed, "input." + std::to_string(step), 0, input);
                           return gradients(p, input, n, d);
                         });
}

}  // namespace tidemark::reference
