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

// Gradients that are off by parts of their norm, in elements of which half are small in the first
// step and not in the second: the loss and the parameters are off by no more than the conditions
// say, and by more than without them.
TEST(Training, ConditionsBoundWhatAdamMakesOfAnError) {
  constexpr double kError = 1e-7;
  const auto run = [](double error) {
    return train_with_adam({{"p", {1, -1, 0.5, 2}}}, 3, Adam{},
                           [&](Tape&, const auto& p, int step) {
                             const double small = step < 2 ? 1e-5 : 1;
                             auto& [columns, x, d] = *p[0];
                             const Values scale{small, 1, small, 1};
                             Loss loss;
                             for (std::size_t i = 0; i < x.size(); ++i) {
                               d[i] = scale[i] * x[i];
                               loss.value += scale[i] * x[i] * x[i] / 2;
                             }
                             const double even = norm(d) / 2;
                             for (auto& g : d) g += (step == 0 ? error : -error) * even;
                             return loss;
                           });
  };
  const auto right = run(0), off = run(kError);
  EXPECT_EQ(right.loss[0], off.loss[0]);
  const double loss = std::abs(off.loss[2] - right.loss[2]) / right.loss[2];
  EXPECT_GT(loss, kError);
  EXPECT_LT(loss, kError * right.condition);
  Values apart = off.parameters[0].values;
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] -= right.parameters[0].values[i];
  const double moved = norm(apart) / norm(right.parameters[0].values);
  EXPECT_GT(moved, kError);
  EXPECT_LT(moved, kError * right.parameter_condition);
}

TEST(Training, AGradientThatIsAlwaysZeroHasNoError) {
  const auto result = train_with_adam({{"p", {1, 1}}}, 2, Adam{}, [](Tape&, const auto& p, int) {
    p[0]->gradient = {0, 1};
    return Loss{1};
  });
  EXPECT_LT(result.parameter_condition, 1.1);
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
