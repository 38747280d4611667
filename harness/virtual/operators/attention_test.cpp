// The fused attention kernels' numbers, forward and backward, against the plain formula under
// autograd; and the workspaces that PyTorch takes for cuBLAS.
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include "harness/virtual/operators/testing.h"

namespace {

using tidemark::operators::enter;
using Tensors = std::vector<at::Tensor>;

struct Problem {
  const char* name;
  at::ScalarType type;
  std::int64_t heads, key_heads, queries, keys, dim;
  bool causal, masked;
  const char* kernel;
};
std::ostream& operator<<(std::ostream& out, const Problem& p) { return out << p.name; }

class Attention : public testing::TestWithParam<Problem> {
 protected:
  static void SetUpTestSuite() { at::globalContext().lazyInitDevice(c10::kCUDA); }
  void SetUp() override { enter("math"); }
  void TearDown() override {
    at::globalContext().setSDPUseCuDNN(true);
    enter("off");
  }
};

at::Tensor plain(const Tensors& t, const Problem& p, const at::Tensor& mask) {
  const auto group = p.heads / p.key_heads;
  const auto k = t[1].repeat_interleave(group, 1), v = t[2].repeat_interleave(group, 1);
  auto scores = at::matmul(t[0], k.transpose(-2, -1)) / std::sqrt(static_cast<double>(p.dim));
  if (p.causal)
    scores = scores.masked_fill(at::ones({p.queries, p.keys}, at::kBool).triu(1), -INFINITY);
  if (mask.defined()) scores = scores + mask;
  return at::matmul(at::softmax(scores, -1), v);
}

TEST_P(Attention, ForwardAndBackwardFollowTheFormula) {
  const Problem p = GetParam();
  at::manual_seed(5);
  const Tensors base{
      at::randn({2, p.heads, p.queries, p.dim}), at::randn({2, p.key_heads, p.keys, p.dim}),
      at::randn({2, p.key_heads, p.keys, p.dim}), at::randn({2, p.heads, p.queries, p.dim})};
  const at::Tensor mask = p.masked ? at::randn({2, p.heads, p.queries, p.keys}) : at::Tensor();
  Tensors exact, device;
  for (int i = 0; i < 3; ++i) {
    const auto rounded = base[static_cast<std::size_t>(i)].to(p.type);
    exact.push_back(rounded.to(at::kDouble).requires_grad_(true));
    device.push_back(rounded.to(at::kCUDA).requires_grad_(true));
  }
  const at::Tensor grad = base[3].to(p.type);
  const at::Tensor expected = plain(exact, p, p.masked ? mask.to(p.type).to(at::kDouble) : mask);
  expected.backward(grad.to(at::kDouble));
  at::globalContext().setSDPUseCuDNN(std::string(p.kernel) == "CudnnAttention");
  const auto output = at::scaled_dot_product_attention(
      device[0], device[1], device[2],
      p.masked ? std::make_optional(mask.to(p.type).to(at::kCUDA)) : std::nullopt, 0, p.causal,
      std::nullopt, p.heads != p.key_heads);
  // An odd head dimension is padded before and sliced after the kernel.
  const auto last = output.grad_fn();
  const std::string node = last->name() + " " + last->next_edge(0).function->name();
  EXPECT_THAT(node, testing::HasSubstr(p.kernel));
  output.backward(grad.to(at::kCUDA));
  const double tolerance = p.type == at::kBFloat16 ? 4e-2 : 1e-5;
  const auto close = [&](const at::Tensor& measured, const at::Tensor& formula, const char* what) {
    const double error =
        (measured.to(at::kCPU).to(at::kDouble) - formula).abs().max().item<double>();
    EXPECT_LT(error, tolerance * formula.abs().max().item<double>()) << what;
  };
  close(output.detach(), expected.detach(), "output");
  for (std::size_t i = 0; i < 3; ++i) close(device[i].grad(), exact[i].grad(), "gradient");
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Attention,
    testing::Values(
        Problem{"cudnn", at::kBFloat16, 4, 4, 17, 17, 16, false, false, "CudnnAttention"},
        Problem{"cudnn_causal", at::kBFloat16, 4, 4, 16, 24, 64, true, false, "CudnnAttention"},
        Problem{"cudnn_grouped", at::kBFloat16, 4, 2, 9, 9, 32, true, false, "CudnnAttention"},
        Problem{"flash", at::kBFloat16, 4, 4, 17, 17, 16, false, false, "FlashAttention"},
        Problem{"flash_causal", at::kBFloat16, 4, 4, 17, 17, 16, true, false, "FlashAttention"},
        Problem{"flash_grouped", at::kBFloat16, 4, 2, 9, 9, 32, true, false, "FlashAttention"},
        Problem{"flash_odd_head", at::kBFloat16, 2, 2, 9, 13, 20, false, false, "FlashAttention"},
        Problem{"efficient", at::kFloat, 4, 4, 17, 9, 16, false, false, "EfficientAttention"},
        Problem{"efficient_causal", at::kFloat, 4, 4, 17, 17, 16, true, false,
                "EfficientAttention"},
        Problem{"efficient_masked", at::kFloat, 2, 2, 8, 16, 16, false, true,
                "EfficientAttention"}),
    [](const auto& one) { return one.param.name; });

// Dropout is random, but backward must drop what forward dropped: the gradient of the values tells
// the mask.
TEST_F(Attention, BackwardDropsWhatForwardDropped) {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    const auto options = at::TensorOptions().device(c10::kCUDA).dtype(type);
    const auto q = at::zeros({1, 1, 16, 16}, options).requires_grad_(true);
    const auto k = at::zeros({1, 1, 16, 16}, options).requires_grad_(true);
    const auto v = at::eye(16, options).view({1, 1, 16, 16}).requires_grad_(true);
    const auto output = at::scaled_dot_product_attention(q, k, v, {}, 0.5);
    output.backward(at::eye(16, options).view({1, 1, 16, 16}));
    // output = P V = P (dropped, scaled); grad V = P^T.
    EXPECT_TRUE(at::equal(output.detach().cpu(), v.grad().transpose(-2, -1).cpu()));
    const double kept = (output.detach().cpu() > 0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, 0.5, 0.15);
  }
}

// By flash, and by the memory-efficient kernel: of the packed call and of a call for each sequence
// the outputs and gradients.
TEST_F(Attention, SequencesEndToEndAreAsEachAlone) {
  const std::vector<std::int64_t> begins{0, 5, 5, 14, 15};  // one is empty
  const auto at_device = at::TensorOptions().device(c10::kCUDA);
  const at::Tensor places = at::tensor(begins, at::kInt).to(at::kCUDA);
  const auto by_flash = [](const Tensors& t, bool causal, const at::Tensor& packed,
                           std::int64_t longest) -> Tensors {
    const auto places = packed.defined() ? std::make_optional(packed) : std::nullopt;
    const auto [out, lse, state, unused, debug] = at::_flash_attention_forward(
        t[0], t[1], t[2], places, places, longest, longest, 0, causal, false);
    const auto [q, k, v] =
        at::_flash_attention_backward(t[3], t[0], t[1], t[2], out, lse, packed, packed, longest,
                                      longest, 0, causal, state, unused);
    return {out, q, k, v};
  };
  const auto efficient = [](const Tensors& t, bool causal, const at::Tensor& packed,
                            std::int64_t longest) -> Tensors {
    const bool is_packed = packed.defined();
    const auto places = is_packed ? std::make_optional(packed) : std::nullopt;
    const auto most = is_packed ? std::make_optional(longest) : std::nullopt;
    Tensors batch;
    for (const at::Tensor& one : t) batch.push_back(one.dim() == 3 ? one.unsqueeze(0) : one);
    const auto [out, lse, seed, offset, max_q, max_k] = at::_efficient_attention_forward(
        batch[0], batch[1], batch[2], {}, places, places, most, most, 0, causal ? 1 : 0, true);
    const auto [q, k, v, bias] = at::_efficient_attention_backward(
        batch[3], batch[0], batch[1], batch[2], {}, out, places, places, longest, longest, lse, 0,
        seed, offset, causal ? 1 : 0, false);
    if (!is_packed) return {out, q, k, v};
    return {out.squeeze(0), q.squeeze(0), k.squeeze(0), v.squeeze(0)};
  };
  int compared = 0;
  for (const bool flash : {true, false})
    for (const bool causal : {true, false}) {
      Tensors all;
      for (int i = 0; i < 4; ++i)
        all.push_back(at::randn({15, 2, 16}, at_device.dtype(flash ? at::kHalf : at::kFloat)));
      const auto run = [&](const Tensors& t, const at::Tensor& packed, std::int64_t longest) {
        return flash ? by_flash(t, causal, packed, longest) : efficient(t, causal, packed, longest);
      };
      const Tensors together = run(all, places, 9);
      for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
        if (begins[i] == begins[i + 1]) continue;
        Tensors part;
        for (const at::Tensor& one : all)
          part.push_back(one.slice(0, begins[i], begins[i + 1]).unsqueeze(0).contiguous());
        const Tensors alone = run(part, {}, begins[i + 1] - begins[i]);
        for (std::size_t j = 0; j < alone.size(); ++j, ++compared)
          EXPECT_TRUE(at::equal(together[j].slice(0, begins[i], begins[i + 1]).cpu(),
                                alone[j].squeeze(0).cpu()))
              << flash << causal << i << j;
      }
    }
  EXPECT_EQ(compared, 48);
}

TEST_F(Attention, ShapesSavesTheSameTensorsAsMath) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const auto counts = [](const char* mode) {
    enter(mode);
    allocator::emptyCache();
    const auto before = allocator::getDeviceStats(0);
    const auto x =
        at::randn({2, 4, 64, 32}, at::TensorOptions().device(c10::kCUDA).dtype(at::kBFloat16));
    const auto leaf = x.requires_grad_(true);
    at::scaled_dot_product_attention(leaf, leaf, leaf, {}, 0.1, true).sum().backward();
    const auto after = allocator::getDeviceStats(0);
    return std::pair{after.allocated_bytes[0].allocated - before.allocated_bytes[0].allocated,
                     after.allocation[0].allocated - before.allocation[0].allocated};
  };
  EXPECT_EQ(counts("math"), counts("shapes"));
}

// A cuBLAS handle's workspace is PyTorch's, one a handle and stream: 32 MiB on Hopper, 4096 KiB x 2
// + 16 KiB x 8 before.
TEST_F(Attention, CublasWorkspacesAreAsPyTorchTakesThem) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const auto options = at::TensorOptions().device(c10::kCUDA);
  const auto current = [] { return allocator::getDeviceStats(0).allocated_bytes[0].current; };
  const auto x = at::ones({8, 8}, options), warm = at::empty({8, 8}, options);
  const auto stream = c10::cuda::getStreamFromPool();
  c10::cuda::CUDAStreamGuard guard(stream);
  const auto before = current();
  at::Tensor y = at::mm(x, x);
  const auto first = current() - before;
  EXPECT_EQ(first, 32 * 1024 * 1024 + 512) << "a workspace and 256 bytes of result, rounded up";
  y = at::mm(x, x);
  EXPECT_EQ(current() - before, first) << "taken once";
}

}  // namespace
