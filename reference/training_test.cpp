#include "reference/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/deterministic.h"
#include "reference/linear_chain.h"
#include "reference/multi_mlp.h"
#include "reference/transformer.h"

namespace tidemark::reference {
namespace {

// In its first step Adam's averages cancel against their bias corrections: rate * g / (|g| +
// epsilon) is left. That the gradients themselves are right is what every trial in math says,
// against autograd.
template <class Run>
void expect_adam_follows_the_gradient(const Run& run, std::size_t tensors) {
  const auto result = train(run);
  ASSERT_EQ(result.gradients.size(), tensors);
  for (std::size_t k = 0; k < result.parameters.size(); ++k) {
    const auto& now = result.parameters[k];
    std::vector<double> start(now.values.size());
    fill(run.seed, now.name, 0, start);
    double norm = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const double g = result.gradients[k].values[i];
      const double moved = run.adam.rate * g / (std::abs(g) + run.adam.epsilon);
      EXPECT_NEAR(now.values[i], start[i] - moved, 1e-12) << now.name;
      norm += g * g;
    }
    EXPECT_GT(norm, 0) << now.name;
  }
}

TEST(Training, FirstStepOfAdamFollowsTheGradient) {
  expect_adam_follows_the_gradient(
      MultiMlpRun{.layers = 2, .hidden = 9, .rows = 3, .steps = 1, .seed = 5}, 6);
  expect_adam_follows_the_gradient(TransformerRun{.sequence = 3, .steps = 1, .seed = 2}, 9);
  expect_adam_follows_the_gradient(LinearChainRun{.layers = 2,
                                                  .hidden = 5,
                                                  .adapter_rank = 3,
                                                  .shared_every = 1,
                                                  .microbatches = 2,
                                                  .rows = 3,
                                                  .steps = 1,
                                                  .seed = 4,
                                                  .frozen = {std::vector<bool>(6, false)}},
                                   6);
}

TEST(Deterministic, SlicesAgreeWithTheWhole) {
  std::vector<double> whole(100), part(30);
  fill(7, "mlps.0.fc1.weight", 0, whole);
  fill(7, "mlps.0.fc1.weight", 40, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 40));
  fill(8, "mlps.0.fc1.weight", 0, part);
  EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin()));
}

}  // namespace
}  // namespace tidemark::reference
