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
  Run before = run;
  before.steps = 0;
  const auto result = train(run), first = train(before);
  ASSERT_EQ(result.gradients.size(), tensors);
  for (std::size_t k = 0; k < result.parameters.size(); ++k) {
    const auto& [name, now] = result.parameters[k];
    const at::Tensor &start = first.parameters[k].values, &g = result.gradients[k].values;
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

// Gradients that are off by a part of their norm, in elements of which half are small: Adam makes
// more of it in the small ones, and in parts of the scales all elements are off alike.
TEST(Training, ScalesAreWhatAdamMakesOfAnError) {
  const auto run = [](double error) {
    const auto pass = [&](const Leaves& p, int step) {
      const at::Tensor scale = at::tensor({1e-5, 1.0, 1e-5, 1.0}, at::kDouble),
                       loss = (scale * p[0].square()).sum() / 2;
      loss.backward();
      p[0].mutable_grad() += (step == 0 ? error : -error) * p[0].grad().norm();
      return loss.item<double>();
    };
    Noise none;
    return train_with_adam({{"p", at::tensor({1.0, -1.0, 1.0, -1.0}, at::kDouble)}}, 2, Adam{},
                           pass, none);
  };
  const auto right = run(0), off = run(1e-9);
  const at::Tensor apart = (off.parameters[0].values - right.parameters[0].values).abs();
  EXPECT_GT((apart[0] / apart[1]).item<double>(), 1e4);
  const at::Tensor parts = apart / right.scales[0];
  EXPECT_LT((parts[0] / parts[1]).item<double>(), 100);
}

TEST(Training, AGradientThatIsAlwaysZeroHasNoError) {
  const auto pass = [](const Leaves& p, int) {
    p[0].mutable_grad() = at::tensor({0.0, 1.0}, at::kDouble);
    return 1.0;
  };
  Noise noise(1, {});
  const auto result = train_with_adam({{"p", at::ones({2}, at::kDouble)}}, 2, Adam{}, pass, noise);
  const at::Tensor &now = result.parameters[0].values, &scale = result.scales[0];
  EXPECT_EQ(now[0].item<double>(), 1) << "it has not moved, so nothing rounds it";
  EXPECT_NE(now[1].item<double>(), 1);
  EXPECT_LT((scale[0] / scale[1]).item<double>(), 1e-9);
}

// Products, gradients and norms in single precision against the same in double: the errors that
// are drawn are at least as large as the real ones, and no more than a few dozen times.
TEST(Noise, CoversSinglePrecision) {
  for (const std::int64_t terms : {3, 48, 500}) {
    const auto fill_in = [&](const char* name, std::int64_t count) {
      return initial(9, name, count).values;
    };
    const auto run = [&](at::ScalarType type, Noise noise) {
      const at::Tensor x = fill_in("x", 7 * terms).view({7, terms}).to(type).requires_grad_(true),
                       w = fill_in("fc", terms * terms).to(type).requires_grad_(true),
                       norm = fill_in("norm", terms).to(type);
      const at::Tensor y = rms_norm(noise, product(noise, x, w), norm);
      y.square().mean().backward();
      return std::vector<at::Tensor>{y.detach().to(at::kDouble), w.grad().to(at::kDouble),
                                     x.grad().to(at::kDouble)};
    };
    const auto exact = run(at::kDouble, {}), single = run(at::kFloat, {}),
               drawn = run(at::kDouble, Noise(4, {}));
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const double real = ((single[k] - exact[k]).norm() / exact[k].norm()).item<double>(),
                   model = ((drawn[k] - exact[k]).norm() / exact[k].norm()).item<double>();
      EXPECT_GT(2 * model, real) << terms << " " << k;
      EXPECT_LT(model, 60 * real) << terms << " " << k;
    }
  }
}

TEST(Noise, IsTheSameForTheSameSeedAndNoneByDefault) {
  const MultiMlpRun run{.layers = 2, .hidden = 9, .rows = 3, .steps = 2, .seed = 5};
  const auto exact = train(run), again = train(run), one = train(run, Noise(1, {})),
             same = train(run, Noise(1, {})), other = train(run, Noise(2, {}));
  EXPECT_EQ(exact.loss, again.loss);
  EXPECT_EQ(one.loss, same.loss);
  EXPECT_NE(one.loss, exact.loss);
  EXPECT_NE(one.loss, other.loss);
}

TEST(Deterministic, StepsKeepProductsAsLargeAsTheirInputs) {
  for (const double terms : {1.0, 3.0, 48.0, 512.0, 65536.0}) {
    const double gain = step_of_product(terms) * 128 * std::sqrt(terms / 12);
    EXPECT_GT(gain, 0.5);
    EXPECT_LE(gain, 1);
    double chain = 1;
    for (std::int64_t layer = 0; layer < 512; ++layer) {
      chain *= step_in_chain(terms, layer) * 128 * std::sqrt(terms / 12);
      EXPECT_GT(chain, 0.49) << layer;
      EXPECT_LT(chain, 1.01) << layer;
    }
  }
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
