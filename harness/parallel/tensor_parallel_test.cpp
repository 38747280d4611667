// Tensor-parallel layers on 1, 2, 3, 4 and 8 ranks against the same computation in one piece, in
// double precision on the CPU: a chain of two column-row pairs with a residual, its output and
// every gradient, under every gather policy.
#include "harness/parallel/tensor_parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/csrc/autograd/autograd.h>

#include "harness/parallel/attention.h"
#include "harness/parallel/swiglu.h"
#include "harness/run/variant.h"

namespace tidemark {
namespace {

constexpr std::int64_t kRows = 24, kHidden = 24, kHalf = 24;  // kHalf: of a GLU
constexpr GatherPolicy kRight[] = {GatherPolicy::separate, GatherPolicy::cached,
                                   GatherPolicy::recomputed, GatherPolicy::asynchronous};

struct Weights {
  at::Tensor column[2], row[2];
};

at::Tensor random(std::initializer_list<std::int64_t> sizes, std::int64_t seed) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(static_cast<std::uint64_t>(seed));
  return at::randn(sizes, generator, at::kDouble);
}

at::Tensor leaf(const at::Tensor& t) { return t.contiguous().clone().set_requires_grad(true); }

/// This rank's rows of `whole`, in single precision on the GPU.
at::Tensor part(const at::Tensor& whole, const World& world) {
  return leaf(whole.chunk(world.size(), 0)[static_cast<std::size_t>(world.rank())]
                  .to(at::kFloat)
                  .to(at::kCUDA));
}

/// Of (gate | up), output first: this rank's rows of both halves.
at::Tensor merged_part(const at::Tensor& whole, const World& world) {
  const auto rank = static_cast<std::size_t>(world.rank());
  const auto halves = whole.chunk(2, 0);
  const auto mine =
      at::cat({halves[0].chunk(world.size(), 0)[rank], halves[1].chunk(world.size(), 0)[rank]});
  return leaf(mine.to(at::kFloat).to(at::kCUDA));
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  const auto reference = b.detach().to(at::kDouble).cpu();
  return ((a.detach().cpu().to(at::kDouble) - reference).norm() / reference.norm()).item<double>();
}

class Policies : public testing::Test {
 protected:
  Policies() : world(MPI_COMM_WORLD) {
    prepare_device({"test", "test", "instant", {}, Mode::math, world.size(), 1, 0});
    if (world.size() > 1) communicator = std::make_unique<Communicator>(world);
    input = random({kRows, kHidden}, 1);
    cotangent = random({kRows, kHidden}, 2);
    for (int i = 0; i < 2; ++i) {
      whole.column[i] = random({2 * kHalf, kHidden}, 3 + i) / std::sqrt(kHidden);
      whole.row[i] = random({kHalf, kHidden}, 5 + i) / std::sqrt(kHalf);
    }
  }

  /// Relative errors of the output and of the gradients, by name.
  std::map<std::string, double> run(GatherPolicy policy, bool fused, int rounds = 1) {
    TensorParallel group(communicator.get(), policy);
    group.warm_up(kRows, kHidden, at::kFloat);
    const auto x = part(input, world), dy = part(cotangent, world);
    Weights mine;
    for (int i = 0; i < 2; ++i) {
      mine.column[i] = merged_part(whole.column[i], world);
      mine.row[i] = part(whole.row[i], world);
    }
    at::Tensor y;
    for (int round = 0; round < rounds; ++round) {
      y = x;
      for (int i = 0; i < 2; ++i) {
        const auto wide = group.column_linear(y, mine.column[i]);
        y = y + group.row_linear(fused ? fused_swiglu(wide) : swiglu(wide), mine.row[i]);
      }
      torch::autograd::backward({y}, {dy.detach()});
    }
    // In one piece.
    const auto x1 = leaf(input);
    Weights one;
    auto y1 = x1;
    for (int i = 0; i < 2; ++i) {
      one.column[i] = leaf(whole.column[i]);
      one.row[i] = leaf(whole.row[i]);
      y1 = y1 + at::mm(swiglu(at::mm(y1, one.column[i].t())), one.row[i]);
    }
    torch::autograd::backward({y1}, {cotangent * rounds});
    const auto error = [&](const at::Tensor& a, const at::Tensor& b, bool merged = false) {
      return distance(a, merged ? merged_part(b, world) : part(b, world));
    };
    return {{"output", error(y, y1.detach())},
            {"input", error(x.grad(), x1.grad())},
            {"column 0", error(mine.column[0].grad(), one.column[0].grad(), true)},
            {"column 1", error(mine.column[1].grad(), one.column[1].grad(), true)},
            {"row 0", error(mine.row[0].grad(), one.row[0].grad())},
            {"row 1", error(mine.row[1].grad(), one.row[1].grad())}};
  }

  void expect_right(GatherPolicy policy, bool fused, int rounds = 1) {
    for (const auto& [name, error] : run(policy, fused, rounds))
      EXPECT_LT(error, 2e-6) << name << ", policy " << static_cast<int>(policy) << " fused "
                             << fused << " rounds " << rounds;
  }

  World world;
  std::unique_ptr<Communicator> communicator;
  at::Tensor input, cotangent;
  Weights whole;
};

TEST_F(Policies, TheRightOnesComputeWhatOneProcessDoes) {
  for (const auto policy : kRight)
    for (const bool fused : {false, true})
      for (const int rounds : {1, 3}) expect_right(policy, fused, rounds);
}

TEST_F(Policies, AliasedBuffersSpoilTheColumnWeightsAlone) {
  if (world.size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  for (const auto policy : {GatherPolicy::aliased, GatherPolicy::aliased_by_name}) {
    for (const auto& [name, error] : run(policy, false)) {
      if (name.starts_with("column"))
        EXPECT_GT(error, 0.5) << name;
      else
        EXPECT_LT(error, 2e-6) << name;
    }
  }
}

TEST_F(Policies, TheCanaryMakesAutogradRefuseWhatWasOverwritten) {
  if (world.size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  communicator->bump_versions(true);
  for (const auto policy : {GatherPolicy::aliased, GatherPolicy::aliased_by_name}) {
    EXPECT_THROW(run(policy, false), c10::Error);
  }
  for (const auto policy : kRight) expect_right(policy, true);
}

TEST_F(Policies, RecomputingCostsOneGatherMorePerColumnLinear) {
  if (world.size() == 1) GTEST_SKIP() << "one rank gathers nothing";
  const auto gathers = [&](GatherPolicy policy) {
    const auto before =
        communicator->calls().contains("all_gather") ? communicator->calls().at("all_gather") : 0;
    run(policy, false);
    return communicator->calls().at("all_gather") - before;
  };
  EXPECT_EQ(gathers(GatherPolicy::separate), 4);  // two layers: forward, and backward of the rows
  EXPECT_EQ(gathers(GatherPolicy::cached), 4);
  EXPECT_EQ(gathers(GatherPolicy::recomputed), 6);
  EXPECT_EQ(gathers(GatherPolicy::asynchronous), 6);
}

TEST(SwiGlu, FusedIsEagerBitForBit) {
  prepare_device({"test", "test", "instant", {}, Mode::math, 1, 1, 0});
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto x = random({37, 2 * 53}, 1).to(type).to(at::kCUDA);
    const auto dy = random({37, 53}, 2).to(type).to(at::kCUDA);
    const auto a = leaf(x), b = leaf(x);
    const auto y = swiglu(a), z = fused_swiglu(b);
    EXPECT_TRUE(y.cpu().equal(z.cpu()));
    torch::autograd::backward({y}, {dy});
    torch::autograd::backward({z}, {dy});
    EXPECT_TRUE(a.grad().cpu().equal(b.grad().cpu()));
  }
}

TEST(Attention, IsSoftmaxOfTheProductsBelowTheDiagonal) {
  prepare_device({"test", "test", "instant", {}, Mode::math, 1, 1, 0});
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t kv_heads : {4, 2, 1}) {
      const AttentionShape shape{
          .sequence = 9, .batch = 2, .heads = 4, .kv_heads = kv_heads, .head = 8};
      const auto x = random({18, shape.features()}, 3).to(type);
      const auto dy = random({18, 32}, 4).to(type);
      const auto a = leaf(x.to(at::kCUDA));
      const auto y = causal_attention(a, shape);
      torch::autograd::backward({y}, {dy.to(at::kCUDA)});

      const auto b = leaf(x.to(at::kDouble));
      const auto heads = [&](std::int64_t from, std::int64_t count) {  // [b, 4, s, d]
        const auto view = b.narrow(1, from * 8, count * 8).view({9, 2, count, 8});
        return view.repeat_interleave(4 / count, 2).permute({1, 2, 0, 3});
      };
      const auto q = heads(0, 4), k = heads(4, kv_heads), v = heads(4 + kv_heads, kv_heads);
      const auto above = at::ones({9, 9}, at::kBool).triu(1);
      const auto scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(8.0);
      const auto weights = scores.masked_fill(above, -1e30).softmax(-1);
      const auto z = at::matmul(weights, v).permute({2, 0, 1, 3}).reshape({18, 32});
      torch::autograd::backward({z}, {dy.to(at::kDouble)});
      const double tolerance = type == at::kFloat ? 1e-6 : 2e-2;
      EXPECT_LT(distance(y, z), tolerance);
      EXPECT_LT(distance(a.grad(), b.grad()), tolerance);
    }
  }
}

}  // namespace
}  // namespace tidemark
