// Mode known: what is computed, what is not, and what a program is told about values that nobody
// computed.
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "harness/virtual/operators/poison.h"
#include "harness/virtual/operators/testing.h"

namespace tidemark::operators {
namespace {

using testing::HasSubstr;

std::map<std::string, int> events;  // "operation: answer", with a "!" where it decides

class Known : public testing::Test {
 protected:
  static void SetUpTestSuite() { at::globalContext().lazyInitDevice(c10::kCUDA); }
  void SetUp() override { enter(""); }
  void TearDown() override {
    tidemark_layer_on_event(nullptr);
    tidemark_device_set_known_limit(256 << 10);
    operators::enter("off");
  }
  static void enter(const char* sizes) {
    setenv("TIDEMARK_SIZES", sizes, 1);
    operators::enter("known");
    events.clear();
    tidemark_layer_on_event([](const char* operation, const char* answer, int decides) {
      ++events[std::string(operation) + ": " + answer + (decides ? "!" : "")];
    });
  }
  /// Without values, of a size that would be kept.
  static at::Tensor unknown(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return at::empty(sizes, cuda(type));
  }
  static bool is_known(const at::Tensor& tensor) {
    return tidemark_device_is_known(tensor.const_data_ptr(), tensor.nbytes());
  }
};

TEST_F(Known, FreshMemoryIsUnknownWhateverItHeld) {
  for (const int byte : kPoisons) {
    EXPECT_EQ(at::full({64}, 3, cuda()).sum().item<float>(), 192);
    poison(byte);
    const auto fresh = at::empty({64}, cuda());
    EXPECT_FALSE(is_known(fresh));
    EXPECT_EQ((fresh * 2).sum().item<float>(), 1);
  }
}

TEST_F(Known, TheLimitIsOfTheResultAndLargerForIntegers) {
  tidemark_device_set_known_limit(1024);
  EXPECT_TRUE(is_known(at::ones({256}, cuda())));
  EXPECT_FALSE(is_known(at::ones({257}, cuda())));
  EXPECT_TRUE(is_known(at::arange(8192, cuda(at::kLong))));
  EXPECT_FALSE(is_known(at::arange(8193, cuda(at::kLong))));
  const auto row = at::ones({1, 64}, cuda());
  EXPECT_TRUE(is_known(row.mm(row.t())));
  EXPECT_FALSE(is_known(row.t().mm(row)));  // 64 x 64 of what is known
  EXPECT_FALSE(is_known(at::ones({257}).cuda()));
}

TEST_F(Known, AViewIsKnownByItsOwnBytes) {
  const auto whole = unknown({8, 6});
  whole.select(1, 2).fill_(5);
  EXPECT_EQ(whole.select(1, 2).sum().item<float>(), 40);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(whole.select(1, 3).sum().item<float>(), 1);
  EXPECT_EQ(events["item: 1.0"], 1);
  whole.narrow(0, 0, 4).copy_(unknown({4, 6}));
  EXPECT_EQ(whole.select(1, 2).narrow(0, 4, 4).sum().item<float>(), 20);
  EXPECT_EQ(whole.select(1, 2).narrow(0, 3, 2).sum().item<float>(), 1);
}

TEST_F(Known, ACopyIsKnownWhereItsSourceIs) {
  const auto from = unknown({100});
  from.narrow(0, 10, 5).fill_(7);
  const auto to = at::ones({100}, cuda());
  to.copy_(from);
  EXPECT_EQ(to.narrow(0, 10, 5).sum().item<float>(), 35);
  EXPECT_FALSE(is_known(to.narrow(0, 9, 1)) || is_known(to.narrow(0, 15, 1)));
}

TEST_F(Known, AConcatenationIsKnownWhereItsPartsAre) {
  const auto first = unknown({2, 3}), second = at::ones({1, 3}, cuda());
  const auto rows = at::cat({first, second, unknown({0}), second});
  EXPECT_EQ(rows.narrow(0, 2, 2).sum().item<float>(), 6);
  EXPECT_FALSE(is_known(rows.select(0, 1).narrow(0, 2, 1)));
  const auto deep = at::cat({first.unsqueeze(0), second.unsqueeze(0)}, -2);
  EXPECT_EQ(deep.narrow(1, 2, 1).sum().item<float>(), 3);
  EXPECT_FALSE(is_known(at::cat({first, at::ones({2, 1}, cuda())}, 1).narrow(1, 3, 1)))
      << "columns lie in pieces";
  EXPECT_FALSE(is_known(at::cat({first, at::ones({1, 3}, cuda(at::kLong))}).select(0, 2)))
      << "of another type";
}

TEST_F(Known, AFormThatTheCpuDoesNotHaveIsUnknown) {
  const at::Tensor parts[] = {at::ones({2, 3}, cuda()), at::ones({1, 3}, cuda())};
  const auto nested = at::_nested_tensor_from_tensor_list(parts),
             rows = at::ones({2, 1, 3}, cuda());
  const auto sum = [&](double alpha) { return at::add(nested, rows, alpha).to_padded_tensor(0); };
  EXPECT_FALSE(is_known(sum(2))) << "CUDA's kernel ignores the alpha";
  EXPECT_TRUE(is_known(sum(1)));
  EXPECT_TRUE(sum(1).cpu().equal(
      at::full({2, 2, 3}, 2.).index_put_({at::tensor(1), at::tensor(1)}, at::zeros({3}))));
  EXPECT_THROW(at::embedding(parts[0], at::full({1}, 99, cuda(at::kLong))), c10::Error)
      << "an index out of range is the program's error";
}

TEST_F(Known, AKnownTensorThatGrowsIsPaddedWithZeros) {
  for (const int byte : kPoisons) {
    poison(byte);
    const auto x = at::arange(1, 11, cuda(at::kByte));
    x.resize_({3000});
    EXPECT_TRUE(
        x.cpu().equal(at::cat({at::arange(1, 11, at::kByte), at::zeros({2990}, at::kByte)})));
    const auto y = unknown({10}, at::kByte);
    y.resize_({3000});
    EXPECT_FALSE(is_known(y.narrow(0, 10, 1)));
  }
}

TEST_F(Known, UnknownFloatsAreFinite) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    const auto x = unknown({50}, type);
    EXPECT_TRUE(at::isfinite(x).all().item<bool>());
    EXPECT_FALSE(at::isnan(x).any().item<bool>());
    EXPECT_FALSE(at::isinf(x).logical_or(at::isnan(x)).any().item<bool>());
    EXPECT_EQ(at::isinf(x).to(at::kFloat).max().item<float>(), 0);
    EXPECT_TRUE((x.norm() < std::numeric_limits<double>::infinity()).item<bool>());
    EXPECT_EQ(x.sum().item<double>(), 1);
    EXPECT_TRUE(x.cpu().equal(at::ones({50}, type)));
    EXPECT_EQ(x.to(at::kCPU, at::kDouble).sum().item<double>(), 50);
  }
  for (const auto& [event, count] : events) EXPECT_EQ(event.find('!'), std::string::npos) << event;
}

TEST_F(Known, AnOverflowCheckFindsNoneInUnknownGradientsAndThoseThatAreThere) {
  const auto check = [&](const at::Tensor& gradient) {
    const auto found_inf = at::zeros({1}, cuda()), scale = at::full({1}, 0.5, cuda());
    at::_amp_foreach_non_finite_check_and_unscale_({gradient}, const_cast<at::Tensor&>(found_inf),
                                                   scale);
    return found_inf.item<float>();
  };
  EXPECT_EQ(check(unknown({1000})), 0);
  EXPECT_EQ(events["aten::_amp_foreach_non_finite_check_and_unscale_: no overflow"], 1);
  EXPECT_EQ(check(at::ones({1000}, cuda())), 0);
  EXPECT_EQ(check(at::full({1000}, std::numeric_limits<double>::infinity(), cuda())), 1);
  EXPECT_EQ(events.size(), 1u);
}

TEST_F(Known, ABoolThatDecidesIsAnsweredAndSaid) {
  const auto x = unknown({3}), y = unknown({3});
  EXPECT_TRUE(at::equal(x, y));
  EXPECT_TRUE(at::allclose(x, y));
  EXPECT_EQ(events["aten::all: yes!"], 2);
  EXPECT_FALSE((x > 0).any().item<bool>());
  EXPECT_EQ(events["aten::any: no!"], 1);
  EXPECT_FALSE((x[0] > 0).item<bool>());
  EXPECT_EQ(events["item: False!"], 1);
  EXPECT_FALSE(at::equal(at::zeros({2}, cuda()), at::ones({2}, cuda())));  // known
}

TEST_F(Known, SizesAndIntegersAreRefusedByName) {
  const auto x = unknown({8}), scores = unknown({4, 6});
  const auto refused = [&](const char* text, const std::function<void()>& call) {
    EXPECT_THAT(message(call), testing::AllOf(HasSubstr(text), HasSubstr("TIDEMARK_SIZES")));
  };
  refused("aten::nonzero", [&] { x.nonzero(); });
  refused("aten::nonzero", [&] { x.masked_select(x > 0); });
  refused("aten::nonzero", [&] { x.index({x > 0}); });
  refused("aten::_unique2", [&] { at::_unique2(x); });
  refused("type Long", [&] { unknown({4}, at::kLong).bincount(); });
  refused("type Long", [&] { at::repeat_interleave(unknown({4}, at::kLong)); });
  refused("type Long", [&] { scores.argmax().item<std::int64_t>(); });
  refused("type Long", [&] { std::get<1>(scores.topk(2)).cpu(); });
  refused("type Int", [&] { (x > 0).sum(at::kInt).cpu(); });
  EXPECT_EQ((at::arange(8, cuda()) > 5).sum().item<std::int64_t>(), 2);
}

TEST_F(Known, CountsOfRightAnswersAreAnsweredAndOtherCountsAreNot) {
  std::mt19937 draw(3);  // NOLINT: the same cases each time
  for (int i = 0; i < 20; ++i) {
    const std::int64_t rows = 2 + draw() % 60, choices = 2 + draw() % 9;
    const auto scores = unknown({rows, choices});
    const auto labels = at::randint(choices, {rows}, at::kLong).cuda();
    const auto best = scores.argmax(1);
    const auto count = [](const at::Tensor& right) { return right.sum().item<std::int64_t>(); };
    events.clear();
    EXPECT_EQ(count(best == labels), 0);
    EXPECT_EQ(count(labels == best), 0);
    EXPECT_EQ(count((best == labels) & (labels != 0)), 0);
    EXPECT_EQ(count(((best == labels) & (labels != 0)).to(at::kInt)), 0);
    EXPECT_EQ(
        events["aten::sum: 0 right answers"] + events["aten::sum.dim_IntList: 0 right answers"], 4);
    EXPECT_EQ(count(std::get<1>(scores.topk(2, 1)).eq(labels.unsqueeze(1)).any(1)), 0);
    for (const auto& [event, times] : events) EXPECT_EQ(event.find('!'), event.npos) << event;
    const auto refused = [&](const std::function<void()>& call) {
      EXPECT_THAT(message(call), HasSubstr("type Long"));
    };
    refused([&] { count(best == 1); });
    refused([&] { count(best == labels.narrow(0, 0, 1)); });
    refused([&] { (best.unsqueeze(1) == at::arange(choices, cuda())).sum(0).cpu(); });
    refused([&] { (best == labels).to(at::kLong).cpu(); });
    static_cast<void>(best == labels);  // its memory is the next one's
    refused([&] { count(best == 0); });
  }
}

TEST_F(Known, BytesOfUnknownFloatsAreThoseOfOneAndOtherBytesAreRefused) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    const auto x = unknown({50}, type), ones = at::ones({50}, type);
    EXPECT_TRUE(x.view(at::kByte).cpu().equal(ones.view(at::kByte))) << type;
    EXPECT_TRUE(x.view(at::kChar).cpu().equal(ones.view(at::kChar))) << type;
    EXPECT_TRUE(
        x.view(at::kByte).slice(0, 16, 48).cpu().equal(ones.view(at::kByte).slice(0, 0, 32)));
    const auto packed = at::cat({x.view(at::kByte), unknown({8}).view(at::kByte)});
    EXPECT_EQ(packed.cpu().numel(), packed.numel());
    auto buffer = unknown({1000}, at::kByte);
    buffer.narrow(0, 0, x.view(at::kByte).numel()).copy_(x.view(at::kByte));
    EXPECT_EQ(buffer.cpu().numel(), 1000);
  }
  EXPECT_GT(events["aten::copy_: the bytes of 1.0"], 0);
  EXPECT_THAT(message([&] { unknown({50}, at::kByte).cpu(); }), HasSubstr("type Byte"));
  EXPECT_THAT(message([&] { (unknown({50}) * 255).to(at::kByte).cpu(); }), HasSubstr("type Byte"));
  const auto mixed = at::cat({unknown({50}).view(at::kByte), unknown({50}, at::kByte)});
  EXPECT_THAT(message([&] { mixed.cpu(); }), HasSubstr("type Byte"));
}

TEST_F(Known, ARefusalAsksForTheSizesThatAreNotGiven) {
  for (const auto& [given, wanted] :
       {std::pair("balanced", "a percentage too"), {"25%", "balanced too"}}) {
    enter(given);
    const auto refused = message([&] {
      const auto x = unknown({8});
      if (given[0] == 'b') x.nonzero();
      x.argsort().cpu();
    });
    EXPECT_THAT(refused, HasSubstr(wanted));
  }
}

TEST_F(Known, SizesAreAnsweredWhereTheUserSaysHow) {
  enter("balanced,25%");
  const auto x = unknown({80}), scores = unknown({12, 8});
  EXPECT_EQ(x.nonzero().size(0), 20);
  EXPECT_EQ(x.masked_select(x > 0).size(0), 20);
  EXPECT_EQ(std::get<0>(at::_unique2(x)).size(0), 20);
  EXPECT_EQ((x > 0).sum().item<std::int64_t>(), 20);
  EXPECT_EQ((scores > 0).sum(1).cpu().sum().item<std::int64_t>(), 24);
  const auto experts = std::get<1>(scores.topk(2, 1));
  EXPECT_TRUE(experts.flatten().bincount().cpu().equal(at::full({8}, 3, at::kLong)));
  EXPECT_TRUE((experts.select(1, 0) != experts.select(1, 1)).all().item<bool>());
  EXPECT_TRUE(scores.argmax(1).bincount().cpu().equal(at::tensor({2, 2, 2, 2, 1, 1, 1, 1})));
  EXPECT_TRUE(std::get<1>(scores.sort(true, 0, false)).cpu().select(1, 5).equal(at::arange(12)));
  setenv("TIDEMARK_SIZES", "half", 1);
  EXPECT_EQ(tidemark_layer_install("known"), -1);
  EXPECT_STREQ(tidemark_layer_error(), "TIDEMARK_SIZES=half: balanced, N% (0 to 100), or both");
}

TEST_F(Known, OffloadedGigabytesTakeNoHostMemoryAndHoldNoLeftovers) {
  constexpr std::int64_t kElements = 1 << 20;
  auto pinned = at::empty({kElements}, at::TensorOptions().pinned_memory(true));
  std::memset(pinned.mutable_data_ptr(), 0xff, pinned.nbytes());
  pinned.narrow(0, 3, kElements - 3).copy_(unknown({kElements - 3}), /*non_blocking=*/true);
  EXPECT_TRUE(at::isfinite(pinned.narrow(0, 3, kElements - 3)).all().item<bool>());
  EXPECT_TRUE(pinned.narrow(0, 3, 16 << 10).eq(1).all().item<bool>());
  EXPECT_TRUE(pinned.narrow(0, 0, 3).isnan().all().item<bool>());  // not its bytes
}

}  // namespace
}  // namespace tidemark::operators
