#include "reference/transformer.h"

#include <string>
#include <utility>

namespace tidemark::reference {

Operand transformer_block(Tape& tape, Operand x, std::span<const Operand> w, const Heads& heads,
                          Stored stored) {
  // The gradients of the inputs of several products are added up in the opposite order.
  const Operand middle = tape.residual(x, [&](Operand in) {
    const Operand n = tape.rms_norm(in, w[0]);
    const Operand v = tape.product(n, w[3]), k = tape.product(n, w[2]), q = tape.product(n, w[1]);
    return tape.product(tape.attention(heads, q, k, v), w[4], stored);
  });
  return tape.residual(middle, [&](Operand in) {
    const Operand n = tape.rms_norm(in, w[5]);
    const Operand up = tape.product(n, w[7]), gate = tape.product(n, w[6]);
    return tape.product(tape.swiglu(gate, up), w[8], stored);
  });
}

Trained train(const TransformerRun& run) {
  const auto h = run.hidden, f = run.ffn, kv = h / run.heads * run.kv_heads;
  const std::pair<const char*, std::int64_t> shapes[kBlockWeights] = {
      {"attention_norm", h}, {"fc_query", h * h}, {"fc_key", kv * h},
      {"fc_value", kv * h},  {"fc_out", h * h},   {"mlp_norm", h},
      {"fc_gate", f * h},    {"fc_up", f * h},    {"fc_down", f * h}};
  std::vector<Tensor> parameters;
  for (std::int64_t l = 0; l < run.layers; ++l)
    for (const auto& [name, elements] : shapes)
      parameters.push_back(initial(run.seed, "layers." + std::to_string(l) + "." + name, elements));
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const Heads heads{size(run.sequence), size(run.batch),     size(run.heads),
                    size(run.kv_heads), size(h / run.heads), /*sequence_slower=*/true};
  const auto elements = run.sequence * run.batch * h;
  const auto terms = static_cast<double>(run.microbatches) * static_cast<double>(elements);
  return train_with_adam(
      parameters, run.steps, run.adam, [&](Tape& tape, const std::vector<Operand>& p, int step) {
        Loss loss;
        for (std::int64_t m = 0; m < run.microbatches; ++m) {
          const auto input = "input." + std::to_string(step) + "." + std::to_string(m);
          Operand x = tape.leaf(initial(run.seed, input, elements).values, size(h));
          for (std::size_t k = 0; k < p.size(); k += kBlockWeights)
            x = transformer_block(tape, x, std::span(p).subspan(k), heads, Stored::input_first);
          for (std::size_t i = 0; i < x->value.size(); ++i) {
            loss.value += x->value[i] * x->value[i] / terms;
            x->gradient[i] = x->value[i] * (2 / terms);
          }
          tape.backward();
        }
        return loss;
      });
}

}  // namespace tidemark::reference
