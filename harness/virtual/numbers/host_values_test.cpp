// Operators that give a value on the host (a bool, a number), and host code that decides by one: in
// math they say over memory with any past what the CPU says.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/virtual/device/control.h"
#include "harness/virtual/numbers/numbers.h"
#include "harness/virtual/numbers/poison.h"

namespace tidemark::numbers {
namespace {

using Tensors = std::vector<at::Tensor>;
using Ask = std::function<c10::IValue(const Tensors&)>;

struct Question {
  const char* name;
  Tensors inputs;  // on the CPU
  Ask ask;
};

std::vector<Question> questions() {
  const auto a = at::arange(8), b = at::arange(8), c = at::arange(8) + 1;
  const auto x = at::linspace(-2, 2, 12).view({3, 4}), y = x.clone();
  const auto far = x + 1e-3, nan = x.log();
  const auto yes = at::ones({}, at::kBool), no = at::zeros({}, at::kBool);
  const auto left = at::tensor({1, 1, 0, 1, 0, 0}, at::kInt).view({2, 3}).to(at::kBool),
             scattered = at::tensor({1, 0, 1, 0, 1, 1}, at::kInt).view({2, 3}).to(at::kBool);
  const auto padded = at::ones({2, 3, 4});
  std::vector<Question> all;
  const auto equal = [](const Tensors& t) -> c10::IValue { return at::equal(t[0], t[1]); };
  const auto close = [](const Tensors& t) -> c10::IValue { return at::allclose(t[0], t[1]); };
  all.push_back({"equal, same values", {a, b}, equal});
  all.push_back({"equal, other values", {a, c}, equal});
  all.push_back({"equal, one differs", {x, y.clone().fill_diagonal_(7)}, equal});
  all.push_back({"equal, floats", {x, y}, equal});
  all.push_back({"equal, transposed", {x, y.t().contiguous().t()}, equal});
  all.push_back({"equal, other shapes", {a, x}, equal});
  all.push_back({"equal, NaN", {nan, nan.clone()}, equal});
  all.push_back({"equal, empty", {a.narrow(0, 0, 0), b.narrow(0, 0, 0)}, equal});
  all.push_back({"equal, bool", {left, scattered}, equal});
  all.push_back({"equal, bf16", {x.to(at::kBFloat16), far.to(at::kBFloat16)}, equal});
  all.push_back({"allclose", {x, y + 1e-7}, close});
  all.push_back({"allclose, far", {x, far}, close});
  all.push_back({"_nested_tensor_from_mask_left_aligned, left", {padded, left}, [](auto& t) {
                   return c10::IValue(at::_nested_tensor_from_mask_left_aligned(t[0], t[1]));
                 }});
  all.push_back({"_nested_tensor_from_mask_left_aligned, not", {padded, scattered}, [](auto& t) {
                   return c10::IValue(at::_nested_tensor_from_mask_left_aligned(t[0], t[1]));
                 }});
  for (const auto& [name, flag] : {std::pair{"true", yes}, {"false", no}}) {
    all.push_back({name, {flag}, [](auto& t) { return c10::IValue(t[0].is_nonzero()); }});
    all.push_back({name, {flag}, [](auto& t) {
                     return c10::IValue(at::equal(t[0], t[0].new_ones({}, at::kBool)));
                   }});
    all.push_back({name, {flag}, [](auto& t) { return c10::IValue(t[0].template item<bool>()); }});
  }
  all.push_back({"all", {x}, [](auto& t) { return c10::IValue((t[0] > -3).all().is_nonzero()); }});
  all.push_back({"any", {x}, [](auto& t) { return c10::IValue((t[0] > 3).any().is_nonzero()); }});
  all.push_back({"item", {a}, [](auto& t) { return c10::IValue(t[0].sum().item()); }});
  all.push_back({"argmax", {x}, [](auto& t) { return c10::IValue(t[0].argmax().item()); }});
  all.push_back({"cov with weights", {x, at::tensor({1, 2, 3, 4})}, [](auto& t) {
                   return c10::IValue(at::cov(t[0], 1, t[1]).sum().item());
                 }});
  all.push_back({"cov, a negative weight", {x, at::tensor({1, 2, -3, 4})}, [](auto& t) {
                   return c10::IValue(at::cov(t[0], 1, t[1]).sum().item());
                 }});
  all.push_back(
      {"isin", {a, c}, [](auto& t) { return c10::IValue(at::isin(t[0], t[1]).sum().item()); }});
  all.push_back({"one_hot", {a}, [](auto& t) { return c10::IValue(at::one_hot(t[0]).size(1)); }});
  all.push_back({"bincount", {c}, [](auto& t) { return c10::IValue(t[0].bincount().size(0)); }});
  all.push_back({"histc", {x}, [](auto& t) { return c10::IValue(t[0].histc(4).sum().item()); }});
  all.push_back({"masked_select", {x}, [](auto& t) {
                   return c10::IValue(t[0].masked_select(t[0] > 0).size(0));
                 }});
  all.push_back({"repeat_interleave", {c}, [](auto& t) {
                   return c10::IValue(at::repeat_interleave(t[0]).size(0));
                 }});
  all.push_back({"unique", {a.remainder(3)}, [](auto& t) {
                   return c10::IValue(std::get<0>(at::_unique2(t[0])).size(0));
                 }});
  all.push_back({"multinomial, a bad distribution", {-x.abs()}, [](auto& t) {
                   return c10::IValue(at::multinomial(t[0], 1).numel());
                 }});
  all.push_back({"bernoulli, a bad probability", {x.abs() + 2}, [](auto& t) {
                   return c10::IValue(at::bernoulli(t[0]).numel());
                 }});
  all.push_back({"tensor_split by a tensor", {x, at::tensor({1, 2})}, [](auto& t) {
                   return c10::IValue(t[0].tensor_split(t[1].cpu())[1].size(0));
                 }});
  all.push_back({"segment_reduce", {x, at::tensor({1, 2})}, [](auto& t) {
                   return c10::IValue(at::segment_reduce(t[0], "max", t[1]).sum().item());
                 }});
  all.push_back({"segment_reduce, lengths that do not fit", {x, at::tensor({1, 3})}, [](auto& t) {
                   return c10::IValue(at::segment_reduce(t[0], "max", t[1]).sum().item());
                 }});
  all.push_back({"ctc_loss by lengths on the device",
                 {at::log_softmax(at::linspace(0, 1, 60).view({5, 2, 6}), 2),
                  at::tensor({1, 2, 3, 4}).view({2, 2}), at::tensor({5, 4}), at::tensor({2, 1})},
                 [](auto& t) { return c10::IValue(at::ctc_loss(t[0], t[1], t[2], t[3]).item()); }});
  return all;
}

std::string answer(const Question& question, at::Device device) {
  Tensors inputs;
  for (const at::Tensor& input : question.inputs) inputs.push_back(input.to(device));
  try {
    std::ostringstream text;
    text << question.ask(inputs);
    return text.str();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return "error: " + text.substr(0, std::min(text.find('\n'), text.find(" (while computing")));
  }
}

class HostValues : public testing::Test {
 protected:
  void SetUp() override {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    ASSERT_EQ(tidemark_numbers_install("math"), 0) << tidemark_numbers_error();
    tidemark_device_set_data(1);
  }
  void TearDown() override {
    tidemark_numbers_install("off");
    tidemark_device_set_data(0);
  }
};

TEST_F(HostValues, AreTheCpusOverMemoryWithAnyPast) {
  const auto all = questions();
  for (const int byte : kPoisons) {
    for (const Question& question : all) {
      SCOPED_TRACE(std::string(question.name) + ", memory of " + std::to_string(byte));
      const std::string expected = answer(question, at::kCPU);
      poison(byte);
      EXPECT_EQ(expected, answer(question, c10::Device(c10::kCUDA, 0)));
    }
  }
}

// The list is PyTorch's own: an operator of a later version that gives a host value, and that
// nothing here asks about, fails.
TEST_F(HostValues, EveryOperatorThatGivesOneIsKnown) {
  const std::map<std::string, std::string> known{
      {"aten::equal", "asked above"},
      {"aten::_nested_tensor_from_mask_left_aligned", "asked above"},
      {"aten::_local_scalar_dense", "asked above, as item"},
      {"aten::is_set_to", "of pointers and sizes"},
      {"aten::_fused_sdp_choice", "of sizes and types"},
      {"aten::_use_cudnn_ctc_loss", "of sizes"},
      {"aten::_use_cudnn_ctc_loss.Tensor", "of sizes"},
      {"aten::_use_miopen_ctc_loss", "of sizes"},
      {"aten::_use_miopen_ctc_loss.Tensor", "of sizes"},
      {"aten::_cslt_sparse_mm_search", "refused: no CPU kernel"},
      {"aten::_cudnn_attention_forward", "refused: no CPU kernel"},
      {"aten::_scaled_dot_product_cudnn_attention", "refused: no CPU kernel"},
      {"aten::_scaled_dot_product_flash_attention", "lengths, of sizes"},
      {"aten::_scaled_dot_product_flash_attention.quantized", "refused: no CPU kernel"},
      {"aten::_efficient_attention_forward", "lengths, of sizes"}};
  std::set<std::string> found;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    const std::string text = c10::toString(name);
    for (const c10::Argument& result : op->schema().returns())
      if (result.real_type()->str().find("Tensor") == std::string::npos &&
          text.starts_with("aten::"))
        found.insert(text);
  }
  std::set<std::string> names;
  for (const auto& [name, why] : known) names.insert(name);
  EXPECT_EQ(names, found);
}

}  // namespace
}  // namespace tidemark::numbers
