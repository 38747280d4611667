// Entering and leaving the modes, what shapes refuses, random numbers and several devices in math.
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/virtual/operators/testing.h"

namespace {

using tidemark::device::testing::text_of;
using tidemark::operators::cuda;
using tidemark::operators::enter;
using tidemark::operators::expect_error;
using tidemark::operators::message;

nlohmann::json describe() { return nlohmann::json::parse(text_of(tidemark_layer_describe)); }

class Modes : public testing::Test {
 protected:
  static void SetUpTestSuite() { at::globalContext().lazyInitDevice(c10::kCUDA); }
  void TearDown() override { enter("off"); }
};

TEST_F(Modes, UnknownModeIsRefusedAndChangesNothing) {
  enter("math");
  EXPECT_EQ(tidemark_layer_install("maths"), -1);
  EXPECT_STREQ(tidemark_layer_error(), "no such mode: maths (off, shapes, cost, known, math)");
  EXPECT_STREQ(tidemark_layer_mode(), "math");
}

TEST_F(Modes, SwitchBackAndForthInOneProcess) {
  for (int round = 0; round < 3; ++round) {
    enter("math");
    EXPECT_EQ((at::ones({3}, cuda()) + 1).sum().item<float>(), 6);
    EXPECT_GT(describe()["wrapped"].get<int>(), 1100);
    enter("shapes");
    EXPECT_TRUE(std::isnan((at::ones({3}, cuda()) + 1).sum().item<float>()));
    enter("cost");
    EXPECT_TRUE(std::isnan((at::ones({3}, cuda()) + 1).sum().item<float>()));
    enter("off");
    EXPECT_EQ(describe()["wrapped"].get<int>(), 0);
    tidemark_device_set_data(1);
    EXPECT_NE(message([&] { at::empty({3}, cuda()).fill_(round + 77); }), "");
  }
}

TEST_F(Modes, EveryOperatorWithoutNumbersIsListedAndRefusedByName) {
  enter("math");
  const auto names = describe()["without_numbers"].get<std::vector<std::string>>();
  EXPECT_TRUE(std::find(names.begin(), names.end(), "aten::_cslt_compress") != names.end());
  expect_error("aten::_cslt_compress has no numbers", [] {
    at::_cslt_compress(at::ones({32, 32}, cuda(at::kHalf)));
  });
}

TEST_F(Modes, ShapesRefusesByNameWhatNeedsValues) {
  for (const char* mode : {"shapes", "cost"}) {
    enter(mode);
    const auto x = at::ones({8}, cuda());
    const auto refused = [&](const char* name, const std::function<void()>& call) {
      expect_error(std::string("aten::") + name +
                       " depends on values that this mode does not compute; mode math may",
                   call);
    };
    refused("nonzero", [&] { x.nonzero(); });
    refused("masked_select", [&] { x.masked_select(x > 0); });
    refused("nonzero", [&] { x.index({x > 0}); });
    refused("_unique2", [&] { at::_unique2(x); });
    refused("bincount", [&] { x.to(at::kLong).bincount(); });
    refused("equal", [&] { at::equal(x, x); });
    expect_error("in shapes there is none", [&] { x.to(at::kLong).sum().item<std::int64_t>(); });
    refused("_nested_tensor_from_mask_left_aligned", [&] {
      at::_nested_tensor_from_mask_left_aligned(x.view({2, 2, 2}),
                                                x.view({4, 2}).narrow(0, 0, 2) > 0);
    });
    const auto entries = at::zeros({1, 8}, cuda(at::kLong));
    refused("_coalesce", [&] { at::sparse_coo_tensor(entries, x, {4}).coalesce(); });
    refused("unique_dim", [&] { at::unique_dim(x, 0); });
    for (const auto type : {at::kLong, at::kInt, at::kByte, at::kBool})
      expect_error("is copied to the host, and in shapes it has no values",
                   [&] { x.to(type).cpu(); });
    EXPECT_TRUE(x.to(at::kLong).narrow(0, 0, 0).cpu().equal(at::empty({0}, at::kLong)));
  }
}

TEST_F(Modes, ShapesReadsNoValueAfterSynchronising) {
  enter("shapes");
  const auto before = tidemark_device_synchronisations();
  EXPECT_TRUE(std::isnan(at::ones({4}, cuda()).mean().item<float>()));
  EXPECT_GT(tidemark_device_synchronisations(), before);
  EXPECT_TRUE(std::isnan(at::ones({2}, cuda()).cpu()[1].item<float>()));
  EXPECT_TRUE(
      std::isnan(at::ones({2}, cuda(at::kBFloat16)).to(at::kCPU, at::kDouble)[0].item<double>()));
}

TEST_F(Modes, AHostTensorWhereCudaRefusesItIsRefused) {
  enter("math");
  const auto device = at::ones({3}, cuda()), host = at::ones({3});
  expect_error("same device", [&] { device.add(host); });
  expect_error("same device", [&] { at::mm(device.view({1, 3}), host.view({3, 1})); });
  EXPECT_EQ(device.add(at::scalar_tensor(2)).sum().item<float>(), 9);
}

TEST_F(Modes, AnErrorLeavesTheNextOperatorAlone) {
  enter("math");
  const auto x = at::ones({3}, cuda());
  EXPECT_NE(message([&] { x.add(at::ones({4}, cuda())); }), "");
  EXPECT_NE(message([&] { x.gather(0, at::full({1}, 9, cuda(at::kLong))); }), "");
  EXPECT_EQ(x.add(1).sum().item<float>(), 6);
}

TEST_F(Modes, RandomNumbersFollowTheSeed) {
  enter("math");
  const auto draw = [](std::uint64_t seed) {
    at::Generator generator = at::globalContext().defaultGenerator(at::Device(c10::kCUDA, 0));
    generator.set_current_seed(seed);
    const auto first = at::randn({100}, cuda()), second = at::randn({100}, cuda());
    const auto dropped = std::get<0>(at::native_dropout(at::ones({1000}, cuda()), 0.25, true));
    return at::cat({first, second, at::rand({50}, cuda()), at::randperm(50, cuda()), dropped})
        .cpu();
  };
  const auto a = draw(7), b = draw(7), c = draw(8);
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_FALSE(at::equal(a, c));
  EXPECT_FALSE(at::equal(a.narrow(0, 0, 100), a.narrow(0, 100, 100)));  // one draw is not the next
  EXPECT_NEAR(a.narrow(0, 300, 1000).mean().item<double>(), 1, 0.06);
  EXPECT_EQ(a.narrow(0, 300, 1000).max().item<float>(), 1 / 0.75f);
}

// Two devices in one process (TIDEMARK_DEVICES, set in CMakeLists).
TEST_F(Modes, CopiesBetweenDevicesKeepTheirNumbers) {
  enter("math");
  const auto on = [](c10::DeviceIndex i) { return at::Device(c10::kCUDA, i); };
  const auto host = at::arange(60, at::kFloat).view({5, 12});
  const auto here = host.to(on(0));
  EXPECT_TRUE(here.to(on(1)).cpu().equal(host));
  EXPECT_TRUE(here.t().to(on(1)).cpu().equal(host.t()));                                // strided
  EXPECT_TRUE(here.to(on(1), at::kDouble).cpu().equal(host.to(at::kDouble)));           // converted
  EXPECT_TRUE(here.slice(1, 1, 12, 3).to(on(1)).cpu().equal(host.slice(1, 1, 12, 3)));  // a view
  auto there = at::zeros({12, 5}, at::TensorOptions().device(on(1)).dtype(at::kHalf));
  there.t().copy_(here, /*non_blocking=*/true);  // into a view, of another type, asynchronously
  EXPECT_TRUE(there.cpu().equal(host.t().to(at::kHalf)));
  EXPECT_TRUE((there * 2 + 1).cpu().equal(host.t().to(at::kHalf) * 2 + 1));
  auto pinned = at::empty({5, 12}, at::TensorOptions().pinned_memory(true));
  pinned.copy_(here.to(on(1)), /*non_blocking=*/true);
  c10::cuda::device_synchronize();
  EXPECT_TRUE(pinned.equal(host));
  EXPECT_TRUE(at::cat({here, here.to(on(1)).to(on(0))}).cpu().equal(at::cat({host, host})));
  expect_error("same device", [&] { here.add(here.to(on(1))); });
  EXPECT_EQ(at::empty_like(here).copy_(at::tensor(3.0)).sum().item<float>(), 180);
}

}  // namespace
