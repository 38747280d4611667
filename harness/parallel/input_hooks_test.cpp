#include "harness/parallel/input_hooks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace tidemark {
namespace {

at::Tensor leaf() { return at::ones({2}).requires_grad_(true); }

struct Seen {
  int each = 0, complete = 0;
  InputHooks::Calls calls() {
    return {[this] { ++each; }, [this] { ++complete; }};
  }
};

// Two calls share an input; the backward of the one must not complete the hooks of the other.
TEST(InputHooks, AnotherCallsBackwardCompletesOnlyWhatCountsWhatRuns) {
  for (const auto count : {InputHooks::Count::all, InputHooks::Count::will_execute}) {
    const auto shared = leaf(), x = leaf() * 2, y = leaf() * 2;
    Seen first, second;
    InputHooks one({x, shared}, count, first.calls()), two({y, shared}, count, second.calls());
    one.begin()();
    torch::autograd::backward({(x * shared).sum()}, {});
    EXPECT_EQ(first.complete, 1);
    EXPECT_TRUE(one.over());
    EXPECT_EQ(second.complete, count == InputHooks::Count::will_execute);
    EXPECT_EQ(two.over(), second.complete == 1);
    two.begin()();
    torch::autograd::backward({(y * shared).sum()}, {});
    EXPECT_EQ(second.complete, count == InputHooks::Count::will_execute ? 2 : 1);
  }
}

// A call whose only input is shared: all of its gradients arrive in the backward of the other one,
// before its own has begun.
TEST(InputHooks, GradientsBeforeTheirOwnBackwardDoNotCountWhereAllDo) {
  const auto shared = leaf(), x = leaf() * 2;
  Seen first, second;
  InputHooks one({x, shared}, InputHooks::Count::all, first.calls()),
      two({shared}, InputHooks::Count::all, second.calls());
  one.begin()();
  torch::autograd::backward({(x * shared).sum()}, {});
  EXPECT_EQ(first.complete, 1);
  EXPECT_EQ(second.each, 1);
  EXPECT_EQ(second.complete, 0);
  two.begin()();
  torch::autograd::backward({shared.sum()}, {});
  EXPECT_EQ(second.complete, 1);
}

// A call's graph is gone, its hook on a shared leaf is not; a node of a later graph lies where the
// producer of the call's other input was.
TEST(InputHooks, ANodeAtTheAddressOfAFreedNodeIsNotCounted) {
  const auto shared = leaf();
  auto x = leaf() * 2;
  const auto* gone = x.grad_fn().get();
  Seen seen;
  InputHooks hooks({x, shared}, InputHooks::Count::will_execute, seen.calls());
  x.reset();
  std::vector<at::Tensor> others;
  for (int i = 0; i < 10000 && (others.empty() || others.back().grad_fn().get() != gone); ++i)
    others.push_back(leaf() * 2);
  if (others.back().grad_fn().get() != gone) GTEST_SKIP() << "this heap gives no address twice";
  torch::autograd::backward({(others.back() * shared).sum()}, {});
  EXPECT_EQ(seen.each, 1);
  EXPECT_EQ(seen.complete, 1);
}

TEST(InputHooks, AreOverWhenTheirGraphIsGone) {
  Seen seen;
  auto x = leaf() * 2;
  const InputHooks hooks({x}, InputHooks::Count::all, seen.calls());
  EXPECT_FALSE(hooks.over());
  x.reset();
  EXPECT_TRUE(hooks.over());
}

}  // namespace
}  // namespace tidemark
