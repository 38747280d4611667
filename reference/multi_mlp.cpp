#include "reference/multi_mlp.h"

#include <cmath>
#include <string>

#include "reference/deterministic.h"

namespace tidemark::reference {

Trained train(const MultiMlpRun& run) {
  const std::int64_t h = run.hidden;
  std::vector<Tensor> parameters{initial(run.seed, "pre_norm.weight", h)};
  for (std::int64_t l = 0; l < run.layers; ++l)
    for (const char* layer : {".fc1.weight", ".fc2.weight"})
      parameters.push_back(initial(run.seed, "mlps." + std::to_string(l) + layer, h * h));
  parameters.push_back(initial(run.seed, "post_norm.weight", h));
  return train_with_adam(parameters, run.steps, run.adam, [&](Tape& tape, const auto& p, int step) {
    const auto input = initial(run.seed, "input." + std::to_string(step), run.rows * h);
    Operand x = tape.layer_norm(tape.leaf(input.values, static_cast<std::size_t>(h)), p.front());
    for (std::size_t k = 1; k + 1 < p.size(); k += 2)
      x = tape.residual(
          x, [&](Operand in) { return tape.product(tape.gelu(tape.product(in, p[k])), p[k + 1]); });
    const Operand y = tape.layer_norm(x, p.back());
    double sum = 0, terms = 0;
    for (const double v : y->value) {
      sum += v;
      terms += std::abs(v);
    }
    const auto elements = static_cast<double>(y->value.size());
    y->gradient.assign(y->value.size(), 1 / elements);
    tape.backward();
    return Loss{sum / elements, terms / std::abs(sum)};
  });
}

}  // namespace tidemark::reference
