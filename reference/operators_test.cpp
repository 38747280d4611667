// Every operator's gradients against differences of a weighted sum of what it computes.
#include "reference/operators.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

using Operands = std::vector<Operand>;

struct Row {
  std::string name;
  std::vector<std::pair<std::size_t, std::size_t>> inputs;  // rows and columns
  std::function<Operand(Tape&, const Operands&)> operate;
};

constexpr Heads heads(bool sequence_slower) {
  return {.sequence = 3,
          .batch = 2,
          .heads = 4,
          .kv_heads = 2,
          .head = 2,
          .sequence_slower = sequence_slower};
}

const Row kRows[] = {
    {"product", {{3, 4}, {5, 4}}, [](auto& t, auto& x) { return t.product(x[0], x[1]); }},
    {"product_input_first",
     {{3, 4}, {4, 5}},
     [](auto& t, auto& x) { return t.product(x[0], x[1], Stored::input_first); }},
    {"rms_norm", {{3, 4}, {1, 4}}, [](auto& t, auto& x) { return t.rms_norm(x[0], x[1]); }},
    {"layer_norm", {{3, 4}, {1, 4}}, [](auto& t, auto& x) { return t.layer_norm(x[0], x[1]); }},
    {"gelu", {{3, 4}}, [](auto& t, auto& x) { return t.gelu(x[0]); }},
    {"swiglu", {{3, 4}, {3, 4}}, [](auto& t, auto& x) { return t.swiglu(x[0], x[1]); }},
    {"attention",
     {{6, 8}, {6, 4}, {6, 4}},
     [](auto& t, auto& x) { return t.attention(heads(true), x[0], x[1], x[2]); }},
    {"attention_batch_slower",
     {{6, 8}, {6, 4}, {6, 4}},
     [](auto& t, auto& x) { return t.attention(heads(false), x[0], x[1], x[2]); }},
    {"lookup",
     {{5, 4}},
     [](auto& t, auto& x) {
       return t.lookup(x[0], {3, 0, 3}, 4);
     }},
    {"residual",
     {{3, 4}},
     [](auto& t, auto& x) { return t.residual(x[0], [&](Operand in) { return t.gelu(in); }); }},
};

class Operators : public testing::TestWithParam<Row> {};

TEST_P(Operators, GradientsAreTheSlopesOfTheLoss) {
  const Row& row = GetParam();
  std::vector<Values> values;
  for (const auto& [rows, columns] : row.inputs) {
    values.emplace_back(rows * columns);
    fill(5, "input." + std::to_string(values.size()), 0, values.back());
  }
  Operands inputs;
  const auto loss = [&](Tape& tape) {
    inputs.clear();
    for (std::size_t k = 0; k < values.size(); ++k)
      inputs.push_back(tape.leaf(values[k], row.inputs[k].second));
    Variable& y = *row.operate(tape, inputs);
    fill(5, "weights", 0, y.gradient);
    double sum = 0;
    for (std::size_t i = 0; i < y.value.size(); ++i) sum += y.gradient[i] * y.value[i];
    return sum;
  };
  Tape right;
  loss(right);
  right.backward();
  std::vector<Values> gradients;
  for (const auto* input : inputs) gradients.push_back(input->gradient);
  const double h = 1e-5;
  for (std::size_t k = 0; k < values.size(); ++k)
    for (std::size_t i = 0; i < values[k].size(); ++i) {
      const auto moved = [&](double by) {
        Tape tape;
        values[k][i] += by;
        return loss(tape);
      };
      const double above = moved(h), below = moved(-2 * h);
      values[k][i] += h;
      EXPECT_NEAR(gradients[k][i], (above - below) / (2 * h), 1e-8) << "input " << k << ", " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Operators, testing::ValuesIn(kRows),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tidemark::reference
