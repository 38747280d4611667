#include "reference/linear_chain.h"

#include <gtest/gtest.h>

#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

const Tensor& named(const std::vector<Tensor>& all, const std::string& name) {
  for (const auto& t : all) {
    if (t.name == name) return t;
  }
  throw std::out_of_range(name);
}

TEST(LinearChain, FrozenParametersStayAndThawLater) {
  std::vector<bool> base_frozen{true, false, false, true, false, false};
  auto thawed = base_frozen;
  thawed[0] = false;
  const LinearChainRun run{.layers = 2,
                           .hidden = 5,
                           .adapter_rank = 3,
                           .shared_every = 1,
                           .microbatches = 2,
                           .rows = 3,
                           .steps = 2,
                           .seed = 4,
                           .frozen = {base_frozen, thawed}};
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
