// Numbers of types that the CPU's kernels treat otherwise than CUDA's: unsigned integers, sums of
// many floats, and mixes with half precision.
#include "harness/virtual/operators/testing.h"

namespace tidemark::operators {
namespace {

struct Types : ::testing::Test {
  void SetUp() override { enter("math"); }
  void TearDown() override { enter("off"); }
};

TEST_F(Types, AnUnsignedNumberIsReadOnTheHost) {
  for (const char* mode : {"math", "known"}) {
    enter(mode);
    const at::Tensor values = at::tensor({5, 7}).to(at::kUInt64).to(at::kCUDA);
    EXPECT_EQ(7U, values[1].item().toUInt64()) << mode;
    EXPECT_EQ(5U, values[0].item().toUInt64()) << mode;
  }
}

// 2^63 and more, which an int64 does not hold.
TEST_F(Types, AnUnsignedNumberMayBeLarge) {
  const std::uint64_t large = std::uint64_t{1} << 63 | 5;
  for (const char* mode : {"math", "known"}) {
    enter(mode);
    const at::Tensor full = at::full({3}, at::Scalar(large), cuda(at::kUInt64));
    EXPECT_EQ(large, full[2].item().toUInt64()) << mode;
    EXPECT_EQ(large, full.to(at::kCPU).data_ptr<std::uint64_t>()[1]) << mode;
    at::Tensor floats = at::empty({2}, cuda(at::kDouble));
    floats.fill_(at::Scalar(large));
    EXPECT_EQ(static_cast<double>(large), floats[1].item<double>()) << mode;
    at::Tensor small = at::empty({2}, cuda(at::kUInt64));
    small.fill_(7);
    EXPECT_EQ(7U, small[0].item().toUInt64()) << mode;
  }
}

// Sums in float, rounded once, to the bit: of the CPU's own loops for fp16 neither is sure.
TEST_F(Types, AProductOfHalfPrecision) {
  const auto half = [](const at::Tensor& tensor) { return tensor.to(at::kHalf); };
  const at::Tensor a = half(at::randn({3, 40, 300})), b = half(at::randn({3, 300, 50})),
                   c = half(at::randn({3, 40, 50}));
  const at::Tensor da = a.to(at::kCUDA), db = b.to(at::kCUDA), dc = c.to(at::kCUDA);
  const at::Tensor fa = a.to(at::kFloat), fb = b.to(at::kFloat), fc = c.to(at::kFloat);
  const auto same = [&](const at::Tensor& result, const at::Tensor& exact) {
    EXPECT_EQ(at::kHalf, result.scalar_type());
    return result.to(at::kCPU).equal(half(exact));
  };
  EXPECT_TRUE(same(at::mm(da[0], db[0]), at::mm(fa[0], fb[0])));
  EXPECT_TRUE(same(at::bmm(da, db), at::bmm(fa, fb)));
  EXPECT_TRUE(same(at::addmm(dc[0], da[0], db[0], 2, 3), at::addmm(fc[0], fa[0], fb[0], 2, 3)));
  at::Tensor out = at::empty_like(dc);
  at::baddbmm_out(out, dc, da, db, 2, 3);
  EXPECT_TRUE(same(out, at::baddbmm(fc, fa, fb, 2, 3)));
  dc.baddbmm_(da, db);
  EXPECT_TRUE(same(dc, at::baddbmm(fc, fa, fb)));
}

// By the definition, in double; the result is rounded once from float, 2^-8 in bf16.
TEST_F(Types, AScaledProductOfEightBits) {
  const at::Tensor a = at::randn({16, 32}).to(at::kFloat8_e4m3fn),
                   b = at::randn({48, 32}).to(at::kFloat8_e4m3fn).t(),
                   bias = at::randn({48}).to(at::kBFloat16);
  const auto there = [](const at::Tensor& tensor) { return tensor.to(at::kCUDA); };
  const at::Tensor product = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  for (const bool by_row : {false, true}) {
    const at::Tensor scale_a = by_row ? at::rand({16, 1}) : at::rand({1}),
                     scale_b = by_row ? at::rand({1, 48}) : at::rand({1});
    const at::Tensor exact =
        product * scale_a.to(at::kDouble) * scale_b.to(at::kDouble) + bias.to(at::kDouble);
    const at::Tensor result = at::_scaled_mm(there(a), there(b.t()).t(), there(scale_a),
                                             there(scale_b), there(bias), {}, at::kBFloat16);
    EXPECT_EQ(at::kBFloat16, result.scalar_type());
    EXPECT_TRUE(at::allclose(exact, result.to(at::kCPU).to(at::kDouble), 0x1p-8, 1e-5)) << by_row;
  }
  const at::Tensor large = at::full({1}, 1e4), one = at::ones({1});
  const at::Tensor limited = at::_scaled_mm(there(a), there(b.t()).t(), there(large), there(one),
                                            {}, there(one), at::kFloat8_e4m3fn)
                                 .to(at::kCPU)
                                 .to(at::kFloat);
  EXPECT_EQ(448, limited.abs().max().item<float>()) << "saturated";
}

// The result is the double norm, rounded once: half a unit in the last place, 2^-24, and the sum in
// double is exact to 4,000,000 * 2^-53.
TEST_F(Types, ANormOfManyFloatsKeepsTheAccuracyOfAFloat) {
  const at::Tensor on_host = at::randn({4'000'000}), on_device = on_host.to(at::kCUDA);
  const double exact = at::linalg_vector_norm(on_host.to(at::kDouble)).item<double>();
  at::Tensor out = at::empty({}, cuda());
  at::linalg_vector_norm_out(out, on_device);
  for (const at::Tensor& norm :
       {at::linalg_vector_norm(on_device), at::_foreach_norm({on_device})[0], out}) {
    EXPECT_EQ(at::kFloat, norm.scalar_type());
    EXPECT_NEAR(norm.item<double>() / exact, 1, 0x1.01p-24);
  }
  EXPECT_EQ(at::kHalf,
            at::linalg_vector_norm(on_device.to(at::kHalf).narrow(0, 0, 9)).scalar_type());
}

// Computed in float on the same numbers, and rounded to the type that CUDA gives.
TEST_F(Types, MixesThatTheCpuLacksAreComputedInFloat) {
  const at::Tensor input = at::randn({6, 4}).to(at::kBFloat16),
                   weight = at::randn({4}).to(at::kBFloat16);
  at::Tensor mean = at::zeros({4}), variance = at::ones({4});
  at::Tensor device_mean = mean.to(at::kCUDA), device_variance = variance.to(at::kCUDA);
  const at::Tensor expected = std::get<0>(at::native_batch_norm(
      input.to(at::kFloat), weight.to(at::kFloat), {}, mean, variance, true, 0.1, 1e-5));
  const at::Tensor measured =
      std::get<0>(at::native_batch_norm(input.to(at::kCUDA), weight.to(at::kCUDA), {}, device_mean,
                                        device_variance, true, 0.1, 1e-5));
  EXPECT_TRUE(at::equal(expected.to(at::kBFloat16), measured.to(at::kCPU)));
  EXPECT_TRUE(at::equal(mean, device_mean.to(at::kCPU))) << "written in place";

  const at::Tensor a = at::randn({5}).to(at::kHalf), b = at::randn({5}).to(at::kHalf),
                   g = at::ones({}).to(at::kHalf);
  const at::Tensor loss =
      at::smooth_l1_loss_backward(g.to(at::kFloat), a.to(at::kFloat), b.to(at::kFloat), 1, 1.0);
  EXPECT_TRUE(at::equal(
      loss.to(at::kHalf),
      at::smooth_l1_loss_backward(g.to(at::kCUDA), a.to(at::kCUDA), b.to(at::kCUDA), 1, 1.0)
          .to(at::kCPU)));

  const at::Tensor complex = at::complex(a.to(at::kFloat), b.to(at::kFloat));
  const at::Tensor half = complex.to(at::kComplexHalf);
  at::Tensor in_place = half.to(at::kCUDA);
  in_place.cosh_();
  EXPECT_TRUE(
      at::equal(at::cosh(half.to(at::kComplexFloat)).to(at::kComplexHalf).to(at::kComplexFloat),
                in_place.to(at::kCPU).to(at::kComplexFloat)));
}

// The CPU's kernels refuse these, and CUDA's do not.
TEST_F(Types, WhatOnlyCudaTakes) {
  const at::Tensor flags = at::rand({5, 5}) < 0.5, flags_there = flags.to(at::kCUDA);
  EXPECT_TRUE(at::equal(flags, flags_there.abs().to(at::kCPU)));
  EXPECT_EQ(flags.diagonal().sum().item<std::int64_t>(), flags_there.trace().item<std::int64_t>());

  const at::Tensor over = at::arange(-4, 5), by = at::arange(9) % 3;
  const at::Tensor rest = at::remainder(over.to(at::kCUDA), by.to(at::kCUDA)).to(at::kCPU);
  const at::Tensor defined = by != 0;
  EXPECT_TRUE(at::equal(at::remainder(over.masked_select(defined), by.masked_select(defined)),
                        rest.masked_select(defined)));
}

// The product of the factors is the matrix. It grows with the diagonal, so that no pivot is needed:
// each of n steps rounds an element by 2^-53, and the factors are at most a few times the matrix.
TEST_F(Types, FactorsWithoutPivots) {
  for (const auto& [rows, columns] : {std::pair{5, 5}, {4, 7}, {7, 4}, {1, 3}, {0, 3}}) {
    at::Tensor matrices = at::rand({3, rows, columns}, at::kDouble);
    matrices.diagonal(0, -2, -1).add_(8);
    const auto [p, l, u] = at::linalg_lu(matrices.to(at::kCUDA), false);
    EXPECT_EQ(0, p.numel());
    EXPECT_TRUE(at::allclose(matrices, at::matmul(l.to(at::kCPU), u.to(at::kCPU)), 0, 1e-13));
    const auto [lu, pivots, info] = at::linalg_lu_factor_ex(matrices.to(at::kCUDA), false);
    const int least = std::min(rows, columns);
    EXPECT_TRUE(at::equal(u, lu.narrow(-2, 0, least).triu()));
    EXPECT_TRUE(at::equal(l.tril(-1), lu.narrow(-1, 0, least).tril(-1)));
    EXPECT_TRUE(at::equal(pivots.to(at::kCPU)[2], at::arange(1, least + 1, at::kInt)));
    EXPECT_EQ(0, info.abs().sum().item<std::int64_t>());
  }
  const at::Tensor singular = at::tensor({1., 2., 2., 4.}).view({2, 2});
  EXPECT_EQ(2, std::get<2>(at::linalg_lu_factor_ex(singular.to(at::kCUDA), false)).item<int>());
}

// torch.sparse.check_sparse_tensor_invariants: of the program's tensors, not within operators,
// whose host code has no values.
TEST_F(Types, SparseTensorsMayBeChecked) {
  at::globalContext().setCheckSparseTensorInvariants(true);
  for (const char* mode : {"math", "known"}) {
    enter(mode);
    const at::Tensor indices = at::tensor({2, 0, 2, 1, 1, 1}, at::kLong).view({2, 3}).to(at::kCUDA),
                     values = at::tensor({1.F, 2.F, 3.F}).to(at::kCUDA);
    const at::Tensor sparse = at::sparse_coo_tensor(indices, values, {3, 2}).coalesce();
    EXPECT_EQ(2, sparse._nnz()) << mode;
    const at::Tensor dense = at::arange(6, cuda(at::kFloat)).view({3, 2});
    EXPECT_EQ(6, dense.sparse_mask(sparse).to_dense().sum().item<float>()) << mode;
    expect_error("found index 9", [&] {
      at::sparse_coo_tensor(at::tensor({9, 0}, at::kLong).view({2, 1}).to(at::kCUDA),
                            values.narrow(0, 0, 1), {3, 2});
    });
    EXPECT_TRUE(at::globalContext().checkSparseTensorInvariants() == true);
  }
  at::globalContext().setCheckSparseTensorInvariants(false);
}

TEST_F(Types, AMistakeIsStillOne) {
  expect_error("index", [] {
    at::index_select(at::ones({2}, cuda(at::kHalf)), 0, at::tensor({7}, cuda(at::kLong)));
  });
}

}  // namespace
}  // namespace tidemark::operators
