#include "reference/linear_chain.h"

#include <ATen/ATen.h>

#include <span>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

std::vector<Tensor> parameters_of(const LinearChainRun& run) {
  std::vector<Tensor> all;
  const std::int64_t h = run.hidden, rank = run.adapter_rank;
  for (std::int64_t l = 0; l < run.layers; ++l) {
    const auto layer = "layers." + std::to_string(l);
    all.push_back(initial(run.seed, layer + ".fc.weight", h * h, chain_step(h, l)));
    if (rank == 0) continue;
    for (const char* name : {".adapter_fc_a.weight", ".adapter_fc_b.weight"})
      all.push_back(initial(run.seed, layer + name, rank * h, adapter_step(h)));
  }
  return all;
}

/// A layer: x w^T + shared + (x a^T) b^T, where the second term is there with `shared` and the last
/// one with adapters.
at::Tensor layer(const LinearChainRun& run, std::int64_t number, const at::Tensor& x,
                 std::span<const at::Tensor> weights, Noise& noise) {
  at::Tensor y = product(noise, x, weights[0]);
  if (run.shared_every > 0 && (number + 1) % run.shared_every == 0)
    y = noise.rounded(y + initial(run.seed, "shared." + std::to_string(number), run.hidden).values);
  if (run.adapter_rank == 0) return y;
  return noise.rounded(y + product(noise, product(noise, x, weights[1]), weights[2]));
}

}  // namespace

double chain_step(std::int64_t hidden, std::int64_t layer) {
  return step_in_chain(static_cast<double>(hidden), layer);
}

double adapter_step(std::int64_t hidden) { return step_of_product(static_cast<double>(hidden)); }

Trained train(const LinearChainRun& run, Noise noise) {
  const auto elements = static_cast<double>(run.rows * run.hidden);
  const std::size_t each = run.adapter_rank > 0 ? 3 : 1;
  const auto pass = [&](const Leaves& leaves, int step) {
    double sum = 0;
    for (std::int64_t m = 0; m < run.microbatches; ++m) {
      const auto name = "input." + std::to_string(step) + "." + std::to_string(m);
      const at::Tensor input =
          initial(run.seed, name, run.rows * run.hidden).values.view({run.rows, run.hidden});
      at::Tensor x = input;
      for (std::int64_t l = 0; l < run.layers; ++l)
        x = layer(run, l, x, std::span(leaves).subspan(static_cast<std::size_t>(l) * each, each),
                  noise);
      const at::Tensor apart = noise.rounded(x - input);
      const at::Tensor loss =
          noise.rounded(apart.square().mean(), elements) / static_cast<double>(run.microbatches);
      loss.backward();
      sum += loss.item<double>();
    }
    return sum;
  };
  return train_with_adam(parameters_of(run), run.steps, run.adam, pass, noise, run.frozen);
}

}  // namespace tidemark::reference
