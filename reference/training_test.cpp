#include "reference/training.h"

#include <ATen/ATen.h>
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
    const auto& [name, now] = result.parameters[k];
    const at::Tensor start = initial(run.seed, name, now.numel()).values,
                     g = result.gradients[k].values;
    const at::Tensor moved = run.adam.rate * g / (g.abs() + run.adam.epsilon);
    EXPECT_LT((start - moved - now).abs().max().template item<double>(), 1e-12) << name;
    EXPECT_GT(g.norm().template item<double>(), 0) << name;
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
    const auto pass = [&](const Leaves& p, int step) {
      const double small = step < 2 ? 1e-5 : 1;
      const at::Tensor scale = at::tensor({small, 1.0, small, 1.0}, at::kDouble),
                       loss = (scale * p[0].square()).sum() / 2;
      loss.backward();
      const double even = p[0].grad().norm().item<double>() / 2;
      p[0].mutable_grad() += (step == 0 ? error : -error) * even;
      return Loss{loss.item<double>()};
    };
    return train_with_adam({{"p", at::tensor({1.0, -1.0, 0.5, 2.0}, at::kDouble)}}, 3, Adam{},
                           pass);
  };
  const auto right = run(0), off = run(kError);
  EXPECT_EQ(right.loss[0], off.loss[0]);
  const double loss = std::abs(off.loss[2] - right.loss[2]) / right.loss[2];
  EXPECT_GT(loss, kError);
  EXPECT_LT(loss, kError * right.condition);
  const at::Tensor now = right.parameters[0].values;
  const double moved = ((off.parameters[0].values - now).norm() / now.norm()).item<double>();
  EXPECT_GT(moved, kError);
  EXPECT_LT(moved, kError * right.parameter_condition);
}

TEST(Training, AGradientThatIsAlwaysZeroHasNoError) {
  const auto pass = [](const Leaves& p, int) {
    p[0].mutable_grad() = at::tensor({0.0, 1.0}, at::kDouble);
    return Loss{1};
  };
  const auto result = train_with_adam({{"p", at::ones({2}, at::kDouble)}}, 2, Adam{}, pass);
  EXPECT_LT(result.parameter_condition, 1.1);
}

// A row of terms that do not cancel, and a weight whose step is left out.
TEST(Training, AChainCancelsOnlyWhereItsTermsDo) {
  LinearChainRun run{
      .layers = 1, .hidden = 7, .rows = 4, .steps = 2, .seed = 3, .frozen = {{true}, {false}}};
  const auto result = train(run);
  EXPECT_TRUE(result.gradients.empty()) << "frozen in the first step";
  // The gradient of w[o, i] is the sum over the rows of input[r, i], over rows * hidden.
  const at::Tensor input = initial(3, "input.1.0", 28).values.view({4, 7});
  const double sizes = input.abs().sum(0).norm().item<double>(),
               sums = input.sum(0).norm().item<double>();
  const at::Tensor w = initial(3, "layers.0.fc.weight", 49).values.view({7, 7}),
                   y = input.matmul(w.t());
  const double forward = (input.abs().matmul(w.abs().t()).norm() / y.norm()).item<double>();
  EXPECT_NEAR(
      result.gradient_condition,
      std::max(1.0, forward / std::sqrt(7.0)) * std::max(1.0, sizes / (std::sqrt(4.0) * sums)),
      1e-12);
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
