#include "reference/language_model.h"

#include <algorithm>
#include <cmath>

#include "reference/deterministic.h"
#include "reference/transformer.h"

namespace tidemark::reference {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

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

std::vector<std::size_t> batch(const LanguageModelRun& run, const char* what, int step) {
  const auto all = tokens(run.seed, what + ("." + std::to_string(step)),
                          run.sequence * run.sequences, run.vocabulary);
  return {all.begin(), all.end()};
}

/// The mean over the rows of `logits`, whose gradients it sets.
double cross_entropy(Variable& logits, const std::vector<std::size_t>& targets) {
  const auto rows = static_cast<double>(targets.size());
  double loss = 0;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    const double* row = &logits.value[r * logits.columns];
    const double most = *std::max_element(row, row + logits.columns);
    double sum = 0;
    for (std::size_t i = 0; i < logits.columns; ++i) sum += std::exp(row[i] - most);
    loss += (most + std::log(sum) - row[targets[r]]) / rows;
    for (std::size_t i = 0; i < logits.columns; ++i)
      logits.gradient[r * logits.columns + i] =
          (std::exp(row[i] - most) / sum - (i == targets[r] ? 1 : 0)) / rows;
  }
  return loss;
}

/// Leaves the gradients of the parameters.
double pass(const LanguageModelRun& run, Tape& tape, const std::vector<Operand>& p, int step) {
  const Heads heads{size(run.sequence), size(run.sequences),          size(run.heads),
                    size(run.kv_heads), size(run.hidden / run.heads), /*sequence_slower=*/false};
  Operand x = tape.lookup(p.front(), batch(run, "inputs", step), size(run.hidden));
  const std::size_t weights = run.transformer ? kBlockWeights : 2;  // of a block
  for (std::size_t k = 1; k + 2 < p.size(); k += weights) {
    if (run.transformer)
      x = transformer_block(tape, x, std::span(p).subspan(k), heads, Stored::output_first);
    else
      x = tape.residual(
          x, [&](Operand in) { return tape.product(tape.gelu(tape.product(in, p[k])), p[k + 1]); });
  }
  const Operand logits = tape.product(tape.rms_norm(x, p[p.size() - 2]), p.back());
  const double loss = cross_entropy(*logits, batch(run, "targets", step));
  tape.backward();
  return loss;
}

}  // namespace

std::vector<std::int64_t> tokens(std::uint64_t seed, const std::string& name, std::int64_t count,
                                 std::int64_t vocabulary) {
  std::vector<std::int64_t> result;
  // 128 values, spread over the vocabulary.
  for (const double value : initial(seed, name, count).values)
    result.push_back((static_cast<std::int64_t>(64 * value) + 64) * 7919 % vocabulary);
  return result;
}

Trained train(const LanguageModelRun& run) {
  Trained result;
  result.parameters = parameters_of(run);
  for (int step = 0; step < run.steps; ++step) {
    Tape tape;
    const auto p = leaves(tape, result.parameters);
    result.loss.push_back(pass(run, tape, p, step));
    for (std::size_t k = 0; k < p.size(); ++k) {
      auto& [name, values] = result.parameters[k];
      if (step == 0) result.gradients.push_back({name, p[k]->gradient});
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] -= kLanguageModelRate * p[k]->gradient[i];
    }
  }
  return result;
}

}  // namespace tidemark::reference
