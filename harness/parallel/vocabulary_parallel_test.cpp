// A language model's two ends, sharded over 1, 2, 4 and 8 ranks, against one process in double
// precision: embedding, output projection, cross entropy, every gradient, for vocabularies that do
// not divide.
#include "harness/parallel/vocabulary_parallel.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/csrc/autograd/autograd.h>

#include "harness/run/variant.h"

namespace tidemark {
namespace {

constexpr std::int64_t kRows = 24, kHidden = 20;

at::Tensor random(std::initializer_list<std::int64_t> sizes, std::uint64_t seed) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed);
  return at::randn(sizes, generator, at::kDouble);
}
at::Tensor words(std::int64_t vocabulary, std::uint64_t seed) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed);
  return at::randint(0, vocabulary, {kRows}, generator, at::kLong);
}
at::Tensor leaf(const at::Tensor& t) { return t.contiguous().clone().set_requires_grad(true); }
double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor one = b.detach().to(at::kDouble).cpu();
  return ((a.detach().cpu().to(at::kDouble) - one).norm() / one.norm()).item<double>();
}

class Vocabulary : public testing::Test {
 protected:
  Vocabulary() : world(MPI_COMM_WORLD) {
    prepare_device({"test", "test", "instant", {}, Mode::math, world.size(), 1, 0});
    if (world.size() > 1) communicator = std::make_unique<Communicator>(world);
  }
  World world;
  std::unique_ptr<Communicator> communicator;
};

TEST_F(Vocabulary, ComputesWhatOneProcessDoes) {
  for (const std::int64_t vocabulary : {8, 37, 64, 101}) {
    for (const double scale : {1.0, 300.0}) {  // exp(300) is no float
      const at::Tensor embedding = random({vocabulary, kHidden}, 1);
      const at::Tensor output = random({vocabulary, kHidden}, 2) * scale;
      const at::Tensor tokens = words(vocabulary, 3), targets = words(vocabulary, 4);
      const at::Tensor weights = random({kRows}, 5).abs();  // of the rows' losses

      TensorParallel group(communicator.get(), GatherPolicy::separate);
      const auto shard = vocabulary_shard(vocabulary, world.rank(), world.size());
      const auto part = [&](const at::Tensor& whole) {
        return leaf(whole.narrow(0, shard.begin, shard.rows).to(at::kFloat).to(at::kCUDA));
      };
      const at::Tensor mine = part(embedding), mine_out = part(output);
      const at::Tensor x = vocabulary_parallel_embedding(tokens.to(at::kCUDA), mine, shard, group);
      EXPECT_EQ(x.size(0), kRows / world.size());
      const at::Tensor logits = group.column_linear(x, mine_out);
      const at::Tensor losses =
          vocabulary_parallel_cross_entropy(logits, targets.to(at::kCUDA), shard, group);
      (losses * weights.to(at::kFloat).to(at::kCUDA)).sum().backward();

      const at::Tensor one = leaf(embedding), one_out = leaf(output);
      const at::Tensor all = at::mm(at::embedding(one, tokens), one_out.t());
      const at::Tensor expected = at::cross_entropy_loss(all, targets, {}, at::Reduction::None);
      (expected * weights).sum().backward();

      // Sums of twenty products and, in the loss, of a hundred exponentials in fp32: some ten units
      // in the last place. Where logits are a thousand, so is the absolute error of their rounding,
      // and the softmax has it as a relative one.
      const double allowed = scale == 1 ? 2e-6 : 2e-4;
      const auto of_shard = [&](const at::Tensor& t) {
        return t.narrow(0, shard.begin, shard.rows);
      };
      EXPECT_LT(distance(losses, expected), allowed) << vocabulary << " " << scale;
      EXPECT_LT((mine.grad().cpu().to(at::kDouble) - of_shard(one.grad())).norm().item<double>(),
                allowed * one.grad().norm().item<double>())
          << vocabulary << " " << scale;
      EXPECT_LT(
          (mine_out.grad().cpu().to(at::kDouble) - of_shard(one_out.grad())).norm().item<double>(),
          allowed * one_out.grad().norm().item<double>())
          << vocabulary << " " << scale;
    }
  }
}

TEST_F(Vocabulary, LossesAreTheSameBitsOnAllRanks) {
  const auto shard = vocabulary_shard(37, world.rank(), world.size());
  TensorParallel group(communicator.get(), GatherPolicy::separate);
  const at::Tensor logits =
      random({kRows, 37}, 7).narrow(1, shard.begin, shard.rows).to(at::kFloat);
  const at::Tensor losses = vocabulary_parallel_cross_entropy(
      logits.to(at::kCUDA), words(37, 8).to(at::kCUDA), shard, group);
  at::Tensor first = losses.clone();
  if (communicator) communicator->broadcast(first, 0, {});
  EXPECT_TRUE(first.cpu().equal(losses.cpu()));
}

// 2 n v / t bytes of bf16 logits may go; what stays is the softmax in fp32, 4 n v / t, and of every
// row its place: 8 bytes and one for "elsewhere".
TEST_F(Vocabulary, KeepsTheSoftmaxAlone) {
  const std::int64_t n = 512, vocabulary = 512 * world.size();  // sizes without rounding to blocks
  const auto shard = vocabulary_shard(vocabulary, world.rank(), world.size());
  TensorParallel group(communicator.get(), GatherPolicy::separate);
  const auto device = at::TensorOptions().device(at::kCUDA);
  const auto allocated = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  };
  at::Tensor logits = at::zeros({n, shard.rows}, device.dtype(at::kBFloat16));
  logits.requires_grad_(true);
  const at::Tensor targets = at::zeros({n}, device.dtype(at::kLong));
  const auto before = allocated();
  const at::Tensor losses = vocabulary_parallel_cross_entropy(logits, targets, shard, group);
  EXPECT_EQ(allocated() - before, 4 * n * shard.rows + 8 * n + n + 4 * n);  // and the losses
  losses.sum().backward();
  EXPECT_EQ(logits.grad().scalar_type(), at::kBFloat16);
}

TEST(VocabularyShard, PartsAreTheWhole) {
  for (const std::int64_t vocabulary : {8, 9, 37, 32000, 128256}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto shard = vocabulary_shard(vocabulary, rank, ranks);
        EXPECT_EQ(shard.begin, next);
        EXPECT_GE(shard.rows, vocabulary / ranks);
        EXPECT_LE(shard.rows, vocabulary / ranks + 1);
        next = shard.begin + shard.rows;
      }
      EXPECT_EQ(next, vocabulary);
    }
  }
  EXPECT_THROW(vocabulary_shard(3, 0, 4), std::invalid_argument);
}

}  // namespace
}  // namespace tidemark
