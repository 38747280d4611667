#include "reference/language_model.h"

#include <ATen/ATen.h>

#include <utility>

#include "reference/deterministic.h"
#include "reference/transformer.h"

namespace tidemark::reference {
namespace {

std::vector<Tensor> parameters_of(const LanguageModelRun& run) {
  using Shapes = std::vector<std::pair<const char*, std::int64_t>>;
  const auto h = run.hidden, f = run.ffn, kv = h / run.heads * run.kv_heads;
  const Shapes mlp{{"fc1", f * h}, {"fc2", h * f}},
      transformer{{"attention_norm", h}, {"fc.wq", h * h}, {"fc.wk", kv * h},
                  {"fc.wv", kv * h},     {"fc.wo", h * h}, {"ffn_norm", h},
                  {"fc.w1", f * h},      {"fc.w3", f * h}, {"fc.w2", h * f}};
  std::vector<Tensor> all{initial(run.seed, "embedding", run.vocabulary * h)};
  for (std::int64_t l = 0; l < run.layers; ++l)
    for (const auto& [name, elements] : run.transformer ? transformer : mlp)
      all.push_back(initial(run.seed, "layers." + std::to_string(l) + "." + name, elements));
  all.push_back(initial(run.seed, "norm", h));
  all.push_back(initial(run.seed, "fc.head", run.vocabulary * h));
  return all;
}

// The model learns to name the tokens that it is given.
at::Tensor batch(const LanguageModelRun& run, int step) {
  return at::tensor(tokens(run.seed, "inputs." + std::to_string(step), run.sequence * run.sequences,
                           run.vocabulary),
                    at::kLong);
}

at::Tensor loss_of(const LanguageModelRun& run, const Leaves& p, int step, Noise& noise) {
  const Heads heads{run.sequence, run.sequences,          run.heads,
                    run.kv_heads, run.hidden / run.heads, /*sequence_slower=*/false};
  at::Tensor x =
      noise.rounded(at::embedding(p.front().view({run.vocabulary, run.hidden}), batch(run, step)));
  const std::size_t weights = run.transformer ? kBlockWeights : 2;  // of a block
  for (std::size_t k = 1; k + 2 < p.size(); k += weights)
    x = run.transformer
            ? transformer_block(noise, x, std::span(p).subspan(k), heads, /*input_first=*/false)
            : noise.rounded(
                  x + product(noise, noise.rounded(at::gelu(product(noise, x, p[k]))), p[k + 1]));
  const at::Tensor logits =
      noise.rounded(product(noise, rms_norm(noise, x, p[p.size() - 2]), p.back()),
                    static_cast<double>(run.vocabulary));
  return noise.rounded(at::cross_entropy_loss(logits, batch(run, step)),
                       static_cast<double>(logits.size(0)));
}

}  // namespace

std::vector<std::int64_t> tokens(std::uint64_t seed, const std::string& name, std::int64_t count,
                                 std::int64_t vocabulary) {
  // 128 values, spread over the vocabulary.
  std::vector<double> values(static_cast<std::size_t>(count));
  fill(seed, name, 0, values);
  std::vector<std::int64_t> result;
  for (const double value : values)
    result.push_back((static_cast<std::int64_t>(64 * value) + 64) * 7919 % vocabulary);
  return result;
}

Trained train(const LanguageModelRun& run, Noise noise) {
  Trained result;
  result.parameters = parameters_of(run);
  for (int step = 0; step < run.steps; ++step) {
    const Leaves p = leaves_of(result.parameters);
    noise.begin_pass();
    const at::Tensor loss = loss_of(run, p, step, noise);
    loss.backward();
    result.loss.push_back(loss.item<double>());
    const at::NoGradGuard no_grad;
    for (std::size_t k = 0; k < p.size(); ++k) {
      auto& [name, values] = result.parameters[k];
      if (step == 0) result.gradients.push_back({name, p[k].grad()});
      const at::Tensor moved = kLanguageModelRate * p[k].grad();
      values = noise.stored(values - moved, moved);
    }
  }
  for (const Tensor& each : result.parameters) result.scales.push_back(at::ones_like(each.values));
  return result;
}

}  // namespace tidemark::reference
