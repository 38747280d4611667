// Split backward and checkpointing against plain autograd: the same bits.
#include "cases/zero_bubble_detach/split_backward.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "cases/zero_bubble_detach/checkpoint.h"
#include "cases/zero_bubble_detach/transformer_block.h"

namespace tidemark::zero_bubble_detach {
namespace {

using Parameters = std::vector<at::Tensor>;

Parameters make(const std::vector<NamedShape>& shapes, at::ScalarType type = at::kFloat) {
  Parameters all;
  for (const auto& s : shapes)
    all.push_back((at::randn(s.shape, type) / (s.shape.size() > 1 ? 4.0 : 1.0) +
                   (s.shape.size() > 1 ? 0.0 : 1.0))
                      .requires_grad_());
  return all;
}

constexpr TransformerShape kShape{
    .hidden = 32, .ffn = 48, .heads = 4, .kv_heads = 2, .sequence = 6};

struct Network {
  std::vector<Parameters> blocks;
  std::function<at::Tensor(const at::Tensor&, const Parameters&)> block;
  bool checkpointed = false;
  std::vector<int> tasks;  // by block

  at::Tensor operator()(at::Tensor x) const {
    for (const auto& p : blocks)
      x = checkpointed ? checkpoint([this, &p](const at::Tensor& t) { return block(t, p); }, x)
                       : block(x, p);
    return x;
  }
  Parameters parameters() const {
    Parameters all;
    for (const auto& p : blocks) all.insert(all.end(), p.begin(), p.end());
    return all;
  }
};

Network network(bool transformer, int blocks) {
  Network n;
  at::manual_seed(7);
  for (int i = 0; i < blocks; ++i) {
    n.blocks.push_back(
        make(transformer ? transformer_parameters(kShape) : mlp_parameters(kShape.hidden, 48)));
    n.tasks.insert(n.tasks.end(), n.blocks.back().size(), i);
  }
  n.block = [transformer](const at::Tensor& x, const Parameters& p) {
    return transformer ? transformer_block(x, p, kShape) : mlp_block(x, p);
  };
  return n;
}

at::Tensor some_input() {
  at::manual_seed(11);
  return at::randn({12, kShape.hidden}).requires_grad_();
}
at::Tensor some_gradient() {
  at::manual_seed(13);
  return at::randn({12, kShape.hidden});
}

/// Gradients of the input, then of the parameters; two microbatches, so that gradients add up.
Parameters plain(const Network& n) {
  const auto x = some_input();
  for (auto& p : n.parameters()) p.mutable_grad().reset();
  for (int i = 0; i < 2; ++i) torch::autograd::backward({n(x)}, {some_gradient()});
  Parameters result{x.grad()};
  for (auto& p : n.parameters()) result.push_back(p.grad());
  return result;
}

Parameters split(const Network& n, InputPass pass, bool one_task) {
  const auto x = some_input();
  const auto parameters = n.parameters();
  for (auto& p : parameters) p.mutable_grad().reset();
  at::Tensor input_gradient;
  ParameterGroups left;
  for (int i = 0; i < 2; ++i) {
    auto output = n(x);
    auto first = backward_input({gradient_edge(output)}, {some_gradient()}, {x}, parameters, pass);
    for (const auto& p : parameters) EXPECT_EQ(p.grad().defined(), i > 0);
    input_gradient = i == 0 ? first.gradients[0] : input_gradient + first.gradients[0];
    if (!pass.clean_hooks) left = first.groups;
    backward_weight(parameters, first.groups, {.clean_hooks = pass.clean_hooks, .copies = i == 1},
                    one_task ? n.tasks : std::vector<int>{});
    if (!pass.clean_hooks) collect(left);
  }
  Parameters result{input_gradient};
  for (auto& p : parameters) result.push_back(p.grad());
  return result;
}

void expect_equal(const Parameters& a, const Parameters& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i], b[i])) << "gradient " << i << " differs";
}

class Split : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(Split, HasPlainAutogradsBits) {
  const auto [transformer, checkpointed] = GetParam();
  auto n = network(transformer, 3);
  const auto expected = plain(n);
  n.checkpointed = checkpointed;
  expect_equal(plain(n), expected);
  for (const bool clean : {true, false})
    for (const bool release : {false, true})
      for (const bool one_task : {false, true})
        expect_equal(split(n, {.clean_hooks = clean, .release = release}, one_task), expected);
}

INSTANTIATE_TEST_SUITE_P(Blocks, Split, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST(Checkpoint, RefusesABlockThatChanges) {
  int runs = 0;
  const auto x = some_input();
  const auto less =
      checkpoint([&](const at::Tensor& t) { return runs++ == 0 ? t.sin().cos() : t * 2.0; }, x);
  EXPECT_THROW(torch::autograd::backward({less.sum()}, {}), std::exception);
}

TEST(Groups, FollowTheGraph) {
  const auto w = at::randn({4, 4}).requires_grad_(), b = at::randn({4}).requires_grad_(),
             unused = at::randn({4}).requires_grad_(), g = at::randn({4}).requires_grad_();
  const auto x = at::randn({2, 4}).requires_grad_();
  const std::vector<at::Tensor> parameters{w, b, unused, g};
  // w and b meet x in the same node; g scales the result; w is used again.
  auto y = at::linear(at::addmm(b, x, w.t()) * g, w);
  auto pass = backward_input({gradient_edge(y)}, {at::ones_like(y)}, {x}, parameters);
  ASSERT_EQ(pass.groups.size(), 2u);
  EXPECT_EQ(pass.groups[0]->parameters, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(pass.groups[0]->intermediates.size(), 2u);
  EXPECT_EQ(pass.groups[1]->parameters, (std::vector<std::size_t>{3}));
  backward_weight(parameters, std::move(pass.groups));
  const auto expected = torch::autograd::grad({at::linear(at::addmm(b, x, w.t()) * g, w)},
                                              {w, b, g}, {at::ones_like(y)});
  EXPECT_TRUE(at::equal(w.grad(), expected[0]));
  EXPECT_TRUE(at::equal(b.grad(), expected[1]));
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_TRUE(at::equal(g.grad(), expected[2]));
}

}  // namespace
}  // namespace tidemark::zero_bubble_detach
