// Layers of a transformer block against their definitions: SwiGLU in one operator against two, to
// the bit, and attention against a softmax in double precision on the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "cases/tp_buffer_reuse/attention.h"
#include "cases/tp_buffer_reuse/swiglu.h"
#include "harness/run/variant.h"

namespace tidemark::tp_buffer_reuse {
namespace {

at::Tensor random(std::initializer_list<std::int64_t> sizes, std::int64_t seed) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(static_cast<std::uint64_t>(seed));
  return at::randn(sizes, generator, at::kDouble);
}

at::Tensor leaf(const at::Tensor& t) { return t.contiguous().clone().set_requires_grad(true); }

double distance(const at::Tensor& a, const at::Tensor& b) {
  const auto reference = b.detach().to(at::kDouble).cpu();
  return ((a.detach().cpu().to(at::kDouble) - reference).norm() / reference.norm()).item<double>();
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
}  // namespace tidemark::tp_buffer_reuse
