#include "reference/training.h"

#include <cmath>
#include <utility>

namespace tidemark::reference {

Values product(const Values& x, const Values& w, std::size_t in) {
  const auto rows = x.size() / in, out = w.size() / in;
  Values y(rows * out);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * w[o * in + i];
  return y;
}

void product_backward(const Values& dy, const Values& x, const Values& w, std::size_t in,
                      Values& dx, Values& dw) {
  const auto rows = x.size() / in, out = w.size() / in;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o) {
      const double d = dy[r * out + o];
      for (std::size_t i = 0; i < in; ++i) {
        dx[r * in + i] += d * w[o * in + i];
        dw[o * in + i] += d * x[r * in + i];
      }
    }
}

Trained train_with_adam(std::vector<Tensor> parameters, int steps, const Adam& adam,
                        const std::function<double(const std::vector<Tensor>&, int step,
                                                   std::vector<Values>&)>& gradients) {
  Trained result;
  result.parameters = std::move(parameters);
  auto& p = result.parameters;
  std::vector<Values> d, first, second;
  for (const auto& each : p)
    for (auto* of : {&d, &first, &second}) of->emplace_back(each.values.size());
  for (int step = 0; step < steps; ++step) {
    result.loss.push_back(gradients(p, step, d));
    const double c1 = 1 - std::pow(adam.beta1, step + 1), c2 = 1 - std::pow(adam.beta2, step + 1);
    for (std::size_t k = 0; k < p.size(); ++k) {
      if (step == 0) result.gradients.push_back({p[k].name, d[k]});
      for (std::size_t i = 0; i < d[k].size(); ++i) {
        auto &m = first[k][i], &v = second[k][i];
        m = adam.beta1 * m + (1 - adam.beta1) * d[k][i];
        v = adam.beta2 * v + (1 - adam.beta2) * d[k][i] * d[k][i];
        p[k].values[i] -= adam.rate * (m / c1) / (std::sqrt(v / c2) + adam.epsilon);
      }
    }
  }
  return result;
}

}  // namespace tidemark::reference
