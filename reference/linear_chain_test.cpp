#include "reference/linear_chain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

LinearChainRun run_of(int steps, std::vector<std::vector<bool>> frozen) {
  return {.layers = 2,
          .hidden = 5,
          .adapter_rank = 3,
          .shared_input = true,
          .microbatches = 2,
          .rows = 3,
          .steps = steps,
          .seed = 4,
          .frozen = std::move(frozen)};
}

const Tensor& named(const std::vector<Tensor>& all, const std::string& name) {
  for (const auto& t : all) {
    if (t.name == name) return t;
  }
  throw std::out_of_range(name);
}

// In its first step Adam's averages cancel against their bias corrections: rate * g / (|g| +
// epsilon) is left. That the gradients themselves are right is what every trial in math says,
// against autograd.
TEST(LinearChain, FirstStepOfAdamFollowsTheGradient) {
  const auto run = run_of(1, {std::vector<bool>(6, false)});
  const auto result = train(run);
  ASSERT_EQ(result.gradients.size(), 6u);
  for (std::size_t k = 0; k < result.parameters.size(); ++k) {
    const auto& now = result.parameters[k];
    std::vector<double> start(now.values.size());
    fill(run.seed, now.name, 0, start);
    double norm = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const double g = result.gradients[k].values[i];
      EXPECT_NEAR(now.values[i], start[i] - run.adam.rate * g / (std::abs(g) + run.adam.epsilon),
                  1e-12)
          << now.name;
      norm += g * g;
    }
    EXPECT_GT(norm, 0) << now.name;
  }
}

TEST(LinearChain, FrozenParametersStayAndThawLater) {
  std::vector<bool> base_frozen{true, false, false, true, false, false};
  auto thawed = base_frozen;
  thawed[0] = false;
  const auto run = run_of(2, {base_frozen, thawed});
  const auto result = train(run);
  EXPECT_EQ(result.gradients.size(), 4u);
  const auto moved = [&](const std::string& name) {
    const auto& now = named(result.parameters, name).values;
    std::vector<double> start(now.size());
    fill(run.seed, name, 0, start);
    return now != start;
  };
  EXPECT_TRUE(moved("layers.0.fc.weight"));
  EXPECT_FALSE(moved("layers.1.fc.weight"));
  EXPECT_TRUE(moved("layers.1.adapter_fc_a.weight"));
}

}  // namespace
}  // namespace tidemark::reference
