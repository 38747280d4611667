#include "reference/multi_mlp.h"

#include <ATen/ATen.h>

#include <string>

#include "reference/deterministic.h"

namespace tidemark::reference {

double multi_mlp_step(std::int64_t layers, std::int64_t hidden, bool second) {
  return step_of_product(static_cast<double>(hidden) * static_cast<double>(second ? layers : 1));
}

Trained train(const MultiMlpRun& run, Noise noise) {
  const std::int64_t h = run.hidden;
  const auto norm = [&](const char* name) { return initial(run.seed, name, h); };
  std::vector<Tensor> parameters{norm("pre_norm.weight")};
  for (std::int64_t l = 0; l < run.layers; ++l)
    for (const bool second : {false, true})
      parameters.push_back(
          initial(run.seed, "mlps." + std::to_string(l) + (second ? ".fc2.weight" : ".fc1.weight"),
                  h * h, multi_mlp_step(run.layers, h, second)));
  parameters.push_back(norm("post_norm.weight"));
  const auto terms = static_cast<double>(h), all = static_cast<double>(run.rows * h);
  const auto pass = [&](const Leaves& p, int step) {
    const at::Tensor input =
        initial(run.seed, "input." + std::to_string(step), run.rows * h).values.view({run.rows, h});
    const auto layer_norm = [&](const at::Tensor& x, const at::Tensor& weight) {
      return noise.rounded(at::layer_norm(noise.rounded(x), {h}, noise.rounded(weight), {}, 1e-5),
                           terms);
    };
    at::Tensor x = layer_norm(input, p.front());
    for (std::size_t k = 1; k + 1 < p.size(); k += 2) {
      const at::Tensor wide = noise.rounded(at::gelu(product(noise, x, p[k])));
      x = noise.rounded(x + product(noise, wide, p[k + 1]));
    }
    const at::Tensor apart = noise.rounded(layer_norm(x, p.back()) - input);
    const at::Tensor loss = noise.rounded(apart.square().mean(), all);
    loss.backward();
    return loss.item<double>();
  };
  return train_with_adam(parameters, run.steps, run.adam, pass, noise);
}

}  // namespace tidemark::reference
