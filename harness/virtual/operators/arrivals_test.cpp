// Operators that are registered while a mode is on: an extension's, with kernels of its own.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <nlohmann/json.hpp>

#include "harness/virtual/operators/poison.h"
#include "harness/virtual/operators/testing.h"

namespace {

using namespace tidemark::device::testing;
using tidemark::operators::enter;
using tidemark::operators::expect_error;
using tidemark::operators::message;

constexpr char kernel = 0, by_hand = 0;
// As extensions do: the result is not looked at.
void launch_unseen(const char* function = &kernel) { static_cast<void>(launch(function)); }

at::Tensor twice_cpu(const at::Tensor& x) { return x * 2; }
at::Tensor twice_cuda(const at::Tensor& x) {
  const auto out = at::empty_like(x);
  launch_unseen();
  return out;
}
// Its result has as many elements as a mask has ones, which its own kernel writes.
at::Tensor positive_cpu(const at::Tensor& x) { return x.masked_select(x > 0); }
at::Tensor positive_cuda(const at::Tensor& x) {
  const auto mask = at::empty_like(x, at::kBool);
  launch_unseen();
  return x.masked_select(mask);
}
// Its host code looks at what PyTorch's operators give before its own kernel, or at what that
// writes.
at::Tensor longest_cpu(const at::Tensor& x) { return at::arange(x.max().item<std::int64_t>()); }
at::Tensor longest_cuda(const at::Tensor& x) {
  EXPECT_EQ((x + 1).cpu().max().item<float>(), 4);
  const auto out = at::empty({x.max().item<std::int64_t>()}, x.options().dtype(at::kLong));
  launch_unseen();
  return out;
}
at::Tensor counted_cuda(const at::Tensor& x) {
  const auto count = at::zeros({1}, x.options());
  launch_unseen();
  return at::empty({count.item<std::int64_t>()}, x.options());
}
// Changes its argument, on either device.
at::Tensor bumped(const at::Tensor& x) {
  at::Tensor(x).add_(1);
  return x * 2;
}
at::Tensor composed(const at::Tensor& x) { return x + x; }

struct Extension {
  explicit Extension(const std::string& name)
      : names(torch::Library::DEF, name, std::nullopt, __FILE__, __LINE__),
        cpu(torch::Library::IMPL, name, c10::DispatchKey::CPU, __FILE__, __LINE__),
        cuda(torch::Library::IMPL, name, c10::DispatchKey::CUDA, __FILE__, __LINE__) {
    for (const char* op :
         {"twice", "positive", "longest", "counted", "bumped", "alone", "composed", "later"})
      names.def((std::string(op) + "(Tensor x) -> Tensor").c_str());
    cpu.impl("twice", twice_cpu);
    cuda.impl("twice", twice_cuda);
    cpu.impl("positive", positive_cpu);
    cuda.impl("positive", positive_cuda);
    cpu.impl("longest", longest_cpu);
    cuda.impl("longest", longest_cuda);
    cpu.impl("counted", longest_cpu);
    cuda.impl("counted", counted_cuda);
    cpu.impl("bumped", bumped);
    cuda.impl("bumped", bumped);
    cuda.impl("alone", twice_cuda);
    cuda.impl("composed", composed);
  }
  torch::Library names, cpu, cuda;
};

at::Tensor call(const std::string& name, const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name.c_str(), "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

class Arrivals : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    register_kernel(&kernel, "_Z9extensionPf");
    register_kernel(&by_hand, "_Z7by_handPf");
  }
  void TearDown() override {
    cudaGetLastError();
    enter("off");
  }
  static at::Tensor on_device(const at::Tensor& x) { return x.to(at::kCUDA); }

  const at::Tensor x = at::tensor({-1.f, 2.f, 3.f, -4.f});
};

TEST_F(Arrivals, AreComputedByTheirCpuKernelFromTheFirstCallOn) {
  enter("math");
  const auto d = on_device(x);
  tidemark::operators::poison(0x01);
  const Extension extension("tidemark_late");  // no other operator runs before its own
  EXPECT_TRUE(call("tidemark_late::twice", d).cpu().equal(x * 2));
  EXPECT_TRUE(call("tidemark_late::twice", d + 1).cpu().equal((x + 1) * 2));
  EXPECT_TRUE(call("tidemark_late::positive", d).cpu().equal(at::tensor({2.f, 3.f})));
  EXPECT_TRUE(call("tidemark_late::composed", d).cpu().equal(x * 2));
}

TEST_F(Arrivals, WhatTheirHostCodeReadsIsComputedUntilTheirFirstKernel) {
  enter("math");
  const auto d = on_device(x);
  const Extension extension("tidemark_reads");
  EXPECT_TRUE(call("tidemark_reads::longest", d).cpu().equal(at::arange(3)));
  expect_error(
      "tidemark_reads::counted has no numbers for these arguments: its CUDA host code reads",
      [&] { call("tidemark_reads::counted", d); });
  EXPECT_EQ((d + 1).sum().item<float>(), 4) << "and the next is as it was";
  EXPECT_TRUE(call("tidemark_reads::bumped", d).cpu().equal((x + 1) * 2));
  EXPECT_TRUE(d.cpu().equal(x + 1)) << "once";
}

TEST_F(Arrivals, WithoutACpuKernelOneThatLaunchesItsOwnIsRefusedByName) {
  enter("math");
  const auto d = on_device(x);
  const Extension extension("tidemark_alone");
  expect_error("tidemark_alone::alone has no numbers", [&] { call("tidemark_alone::alone", d); });
  EXPECT_EQ((d + 1).sum().item<float>(), 4) << "and the next is as it was";
}

TEST_F(Arrivals, AKernelThatComesWithALaterRegistrationIsFound) {
  enter("math");
  const auto d = on_device(x);
  Extension extension("tidemark_slow");
  EXPECT_TRUE(call("tidemark_slow::twice", d).cpu().equal(x * 2));
  extension.cpu.impl("later", twice_cpu);
  extension.cuda.impl("later", twice_cuda);
  const Extension other("tidemark_other");
  EXPECT_TRUE(call("tidemark_slow::later", d).cpu().equal(x * 2));
}

TEST_F(Arrivals, AreBracketedInCostAndLeftAloneWhenOff) {
  enter("cost");
  const auto wrapped = [] {
    return nlohmann::json::parse(text_of(tidemark_layer_describe))["wrapped"].get<int>();
  };
  const auto before = wrapped();
  const auto d = on_device(x);
  const Extension extension("tidemark_cost");
  call("tidemark_cost::twice", d);
  EXPECT_EQ(before + 7, wrapped());
  enter("off");
  const Extension other("tidemark_off");
  call("tidemark_off::twice", d);
  EXPECT_EQ(0, wrapped());
}

TEST_F(Arrivals, AKernelLaunchedByHandIsRefused) {
  enter("math");
  const auto d = on_device(x);
  EXPECT_THAT(stderr_of([] { launch_unseen(&by_hand); }),
              testing::HasSubstr("kernel by_hand(float*) is launched outside the operators"));
  EXPECT_NE(message([&] { d.cpu(); }), "") << "what it would have written is not read";
}

}  // namespace
