#include "reference/transformer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace tidemark::reference {
namespace {

/// softmax(q k^T / sqrt(head), causal) v by head; of rows as wide as all heads together.
at::Tensor attention(Noise& noise, const Heads& a, const at::Tensor& q, const at::Tensor& k,
                     const at::Tensor& v) {
  const auto of_head = static_cast<double>(a.head), of_row = static_cast<double>(a.sequence);
  const std::int64_t outer = a.sequence_slower ? a.sequence : a.batch,
                     inner = a.sequence_slower ? a.batch : a.sequence,
                     first = a.sequence_slower ? 1 : 0, second = 1 - first;
  // [batch, heads, sequence, head], and each head of keys and values for its group of queries.
  const auto by_head = [&](const at::Tensor& x, std::int64_t heads) {
    return x.view({outer, inner, heads, a.head})
        .permute({first, 2, second, 3})
        .repeat_interleave(a.heads / heads, 1);
  };
  const at::Tensor scores =
      noise.rounded(noise.factor(by_head(q, a.heads), of_head)
                        .matmul(noise.factor(by_head(k, a.kv_heads), of_head).transpose(2, 3)),
                    of_head) /
      std::sqrt(of_head);
  const at::Tensor later = at::ones({a.sequence, a.sequence}, at::kBool).triu(1);
  const at::Tensor shares = noise.rounded(
      scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1), of_row);
  const at::Tensor y = noise.rounded(
      noise.factor(shares, of_row).matmul(noise.factor(by_head(v, a.kv_heads), of_row)), of_row);
  return y.permute(a.sequence_slower ? at::IntArrayRef{2, 0, 1, 3} : at::IntArrayRef{0, 2, 1, 3})
      .reshape(q.sizes());
}

}  // namespace

at::Tensor transformer_block(Noise& noise, const at::Tensor& x, std::span<const at::Tensor> w,
                             const Heads& heads, bool input_first) {
  const at::Tensor n = rms_norm(noise, x, w[0]);
  const at::Tensor attended = attention(noise, heads, product(noise, n, w[1]),
                                        product(noise, n, w[2]), product(noise, n, w[3]));
  const at::Tensor middle = noise.rounded(x + product(noise, attended, w[4], input_first));
  const at::Tensor m = rms_norm(noise, middle, w[5]);
  const at::Tensor gate = noise.rounded(at::silu(product(noise, m, w[6])));
  const at::Tensor wide = noise.rounded(gate * product(noise, m, w[7]));
  return noise.rounded(middle + product(noise, wide, w[8], input_first));
}

Trained train(const TransformerRun& run, Noise noise) {
  const auto h = run.hidden, f = run.ffn, kv = h / run.heads * run.kv_heads;
  const std::pair<const char*, std::int64_t> shapes[kBlockWeights] = {
      {"attention_norm", h}, {"fc_query", h * h}, {"fc_key", kv * h},
      {"fc_value", kv * h},  {"fc_out", h * h},   {"mlp_norm", h},
      {"fc_gate", f * h},    {"fc_up", f * h},    {"fc_down", f * h}};
  std::vector<Tensor> parameters;
  for (std::int64_t l = 0; l < run.layers; ++l)
    for (const auto& [name, elements] : shapes)
      parameters.push_back(initial(run.seed, "layers." + std::to_string(l) + "." + name, elements));
  const Heads heads{run.sequence, run.batch,     run.heads,
                    run.kv_heads, h / run.heads, /*sequence_slower=*/true};
  const auto rows = run.sequence * run.batch;
  const auto elements = static_cast<double>(rows * h);
  const auto pass = [&](const Leaves& p, int step) {
    double sum = 0;
    for (std::int64_t m = 0; m < run.microbatches; ++m) {
      const auto input = "input." + std::to_string(step) + "." + std::to_string(m);
      at::Tensor x = initial(run.seed, input, rows * h).values.view({rows, h});
      for (std::size_t k = 0; k < p.size(); k += kBlockWeights)
        x = transformer_block(noise, x, std::span(p).subspan(k), heads, /*input_first=*/true);
      const at::Tensor loss =
          noise.rounded(x.square().mean(), elements) / static_cast<double>(run.microbatches);
      loss.backward();
      sum += loss.item<double>();
    }
    return sum;
  };
  return train_with_adam(parameters, run.steps, run.adam, pass, noise);
}

}  // namespace tidemark::reference
