#include "reference/spread.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tidemark::reference {
namespace {

double relative(const at::Tensor& one, const at::Tensor& exact, const at::Tensor& scale = {}) {
  at::Tensor apart = one - exact, all = exact;
  if (scale.defined()) apart = apart / scale, all = all / scale;
  const double distance = apart.norm().item<double>();
  return distance == 0
             ? 0
             : distance / std::max(all.norm().item<double>(), std::numeric_limits<double>::min());
}

void add_square(std::vector<double>& sums, std::size_t at, double value) {
  sums.resize(std::max(sums.size(), at + 1));
  sums[at] += value * value / kDraws;
}

void raise_to_mean(std::vector<double>& squares) {
  double mean = 0;
  for (const double square : squares) mean += square / static_cast<double>(squares.size());
  for (double& square : squares) square = std::max(square, mean);
}

}  // namespace

Spread spread_of(const Trained& exact, const Precision& precision,
                 const std::function<Trained(Noise)>& train) {
  Spread all;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Trained one = train(Noise(static_cast<std::uint64_t>(draw + 1), precision));
    for (std::size_t i = 0; i < exact.loss.size(); ++i)
      add_square(all.loss, i, (one.loss[i] - exact.loss[i]) / exact.loss[i]);
    for (std::size_t k = 0; k < exact.gradients.size(); ++k)
      add_square(all.gradients, k, relative(one.gradients[k].values, exact.gradients[k].values));
    for (std::size_t k = 0; k < exact.parameters.size(); ++k) {
      const at::Tensor &mine = one.parameters[k].values, &right = exact.parameters[k].values;
      add_square(all.parameters, k, relative(mine, right, exact.scales[k]));
      add_square(all.plain, k, relative(mine, right));
    }
  }
  // A rounding of bf16 moves few of a parameter's elements, and those far: three draws of a small
  // tensor may have none of them. All tensors together have.
  if (precision.activations >= kBfloat16)
    for (auto* sums : {&all.parameters, &all.plain}) raise_to_mean(*sums);
  for (auto* sums : {&all.loss, &all.gradients, &all.parameters, &all.plain})
    for (double& sum : *sums) sum = kMargin * std::sqrt(sum);
  // Three draws of one number may happen to be near each other, and errors of parameters only grow:
  // a step is allowed as much as those before it.
  for (std::size_t i = 1; i < all.loss.size(); ++i)
    all.loss[i] = std::max(all.loss[i], all.loss[i - 1]);
  for (double& loss : all.loss) loss += precision.reported;
  return all;
}

}  // namespace tidemark::reference
