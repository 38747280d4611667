#include "reference/multi_mlp.h"

#include <ATen/ATen.h>

#include <string>

namespace tidemark::reference {

Trained train(const MultiMlpRun& run) {
  const std::int64_t h = run.hidden;
  std::vector<Tensor> parameters{initial(run.seed, "pre_norm.weight", h)};
  for (std::int64_t l = 0; l < run.layers; ++l)
    for (const char* layer : {".fc1.weight", ".fc2.weight"})
      parameters.push_back(initial(run.seed, "mlps." + std::to_string(l) + layer, h * h));
  parameters.push_back(initial(run.seed, "post_norm.weight", h));
  return train_with_adam(parameters, run.steps, run.adam, [&](const Leaves& p, int step) {
    const auto input = initial(run.seed, "input." + std::to_string(step), run.rows * h);
    at::Tensor x = at::layer_norm(input.values.view({run.rows, h}), {h}, p.front(), {}, 1e-5);
    for (std::size_t k = 1; k + 1 < p.size(); k += 2)
      x = x + product(at::gelu(product(x, p[k])), p[k + 1]);
    const at::Tensor y = at::layer_norm(x, {h}, p.back(), {}, 1e-5), loss = y.mean();
    loss.backward();
    const double mean = loss.item<double>();
    return Loss{mean, y.abs().mean().item<double>() / std::abs(mean)};
  });
}

}  // namespace tidemark::reference
