// Split backward and checkpointing against plain autograd: the same bits.
#include "cases/zero_bubble_detach/split_backward.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "cases/zero_bubble_detach/checkpoint.h"
#include "cases/zero_bubble_detach/stage_model.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario zero_bubble_detach_scenario();

namespace zero_bubble_detach {
namespace {

using torch::autograd::impl::gradient_edge;
using Parameters = std::vector<at::Tensor>;

/// Three blocks of the size smoke.
struct Network {
  Sizes sizes;
  const StagePlace place{.first_layer = 0, .end_layer = 3};
  Parameters parameters = {};
  std::vector<std::int64_t> tasks = {};  // by parameter: its block

  explicit Network(bool transformer)
      : sizes(testing::first_size(zero_bubble_detach_scenario(), 1, 1,
                                  {{"block", transformer ? 0 : 1}})) {
    at::manual_seed(7);
    for (const auto& [name, shape, block] : parameters_of(sizes, place)) {
      const bool matrix = shape.size() > 1;
      parameters.push_back(
          (matrix ? at::randn(shape) / 4.0 : at::randn(shape) + 1.0).requires_grad_());
      tasks.push_back(block);
    }
  }
  at::Tensor operator()(const at::Tensor& x) const {
    return stage_forward(sizes, place, parameters, x);
  }
  Parameters gradients(const at::Tensor& of_input) const {
    Parameters result{of_input};
    for (auto& p : parameters) result.push_back(std::exchange(p.mutable_grad(), {}));
    return result;
  }
};

at::Tensor some(int seed) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  return at::randn({16, 32});
}

/// Gradients of the input, then of the parameters; two microbatches, so that gradients add up.
Parameters plain(const Network& n) {
  const auto x = some(11).requires_grad_();
  for (int i = 0; i < 2; ++i) torch::autograd::backward({n(x)}, {some(13)});
  return n.gradients(x.grad());
}

Parameters split(const Network& n, InputPass pass, bool one_task) {
  const auto x = some(11).requires_grad_();
  at::Tensor input_gradient;
  for (int i = 0; i < 2; ++i) {
    auto first = backward_input(gradient_edge(n(x)), some(13), x, n.parameters, pass);
    for (const auto& p : n.parameters) EXPECT_EQ(p.grad().defined(), i > 0);
    input_gradient = i == 0 ? first.gradient : input_gradient + first.gradient;
    backward_weight(n.parameters, first.groups, {.clean_hooks = pass.clean_hooks, .copies = i == 1},
                    one_task ? n.tasks : std::vector<std::int64_t>{});
    if (!pass.clean_hooks) collect(first.groups);
  }
  return n.gradients(input_gradient);
}

void expect_equal(const Parameters& a, const Parameters& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i], b[i])) << "gradient " << i << " differs";
}

class Split : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(Split, HasPlainAutogradsBits) {
  const auto [transformer, checkpointed] = GetParam();
  Network n(transformer);
  const auto expected = plain(n);
  n.sizes.checkpointing = checkpointed ? 2 : 0;
  expect_equal(plain(n), expected);
  for (const bool clean : {true, false})
    for (const bool release : {false, true})
      for (const bool one_task : {false, true})
        expect_equal(split(n, {.clean_hooks = clean, .release = release}, one_task), expected);
}

INSTANTIATE_TEST_SUITE_P(Blocks, Split, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST(Checkpoint, RefusesABlockThatChanges) {
  int runs = 0;
  const auto x = some(11).requires_grad_();
  const auto less =
      checkpoint([&](const at::Tensor& t) { return runs++ == 0 ? t.sin().cos() : t * 2.0; }, x);
  EXPECT_THROW(torch::autograd::backward({less.sum()}, {}), std::exception);
}

TEST(Groups, FollowTheGraph) {
  const auto w = at::randn({4, 4}).requires_grad_(), b = at::randn({4}).requires_grad_(),
             unused = at::randn({4}).requires_grad_(), g = at::randn({4}).requires_grad_();
  const auto x = at::randn({2, 4}).requires_grad_();
  const std::vector<at::Tensor> parameters{w, b, unused, g};
  // w and b meet x in the same node; g scales the result.
  const auto model = [&] { return at::addmm(b, x, w.t()) * g; };
  const auto ones = at::ones({2, 4});
  auto pass = backward_input(gradient_edge(model()), ones, x, parameters);
  ASSERT_EQ(pass.groups.size(), 2u);
  EXPECT_EQ(pass.groups[0]->parameters, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(pass.groups[1]->parameters, (std::vector<std::size_t>{3}));
  backward_weight(parameters, std::move(pass.groups));
  expect_equal({w.grad(), b.grad(), g.grad()}, torch::autograd::grad({model()}, {w, b, g}, {ones}));
  EXPECT_FALSE(unused.grad().defined());
  const auto reused = at::linear(model(), w);
  EXPECT_THROW(backward_input(gradient_edge(reused), ones, x, parameters), std::logic_error);
}

}  // namespace
}  // namespace zero_bubble_detach
}  // namespace tidemark
