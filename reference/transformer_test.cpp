// The reference transformer's gradients against differences of its loss.
#include "reference/transformer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tidemark::reference {
namespace {

TEST(Transformer, GradientsAreTheSlopesOfTheLoss) {
  const TransformerRun run{.layers = 2,
                           .hidden = 8,
                           .ffn = 6,
                           .heads = 4,
                           .kv_heads = 2,
                           .sequence = 3,
                           .batch = 2,
                           .microbatches = 2,
                           .seed = 5};
  auto p = transformer_parameters(run);
  std::vector<Values> d;
  transformer_loss(run, p, 0, &d);
  ASSERT_EQ(d.size(), p.size());
  const double h = 1e-5;
  for (std::size_t k = 0; k < p.size(); ++k) {
    for (std::size_t i = 0; i < p[k].values.size(); i += 7) {
      auto& value = p[k].values[i];
      const double before = value;
      value = before + h;
      const double above = transformer_loss(run, p, 0, nullptr);
      value = before - h;
      const double below = transformer_loss(run, p, 0, nullptr);
      value = before;
      EXPECT_NEAR(d[k][i], (above - below) / (2 * h), 1e-8) << p[k].name << " " << i;
    }
  }
}

TEST(Transformer, TrainingLowersTheLoss) {
  const TransformerRun run{
      .layers = 1, .hidden = 8, .ffn = 8, .heads = 2, .kv_heads = 1, .sequence = 4, .steps = 5};
  const auto result = train(run);
  ASSERT_EQ(result.loss.size(), 5U);
  ASSERT_EQ(result.parameters.size(), 9U);
  EXPECT_LT(transformer_loss(run, result.parameters, 0, nullptr), result.loss.front());
}

}  // namespace
}  // namespace tidemark::reference
