// Operators that give a value on the host (a bool, a number), and host code that decides by one: in
// math they say over memory with any past what the CPU says.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/virtual/numbers/poison.h"
#include "harness/virtual/numbers/sweep.h"
#include "harness/virtual/numbers/testing.h"

namespace tidemark::numbers {
namespace {

using Ask = std::function<c10::IValue(const Tensors&)>;

struct Question {
  const char* name;
  Tensors inputs;  // on the CPU
  Ask ask;
};

// A question of `all`, by an expression of the inputs t[0], t[1] ...
#define ASK(name, inputs, expression) \
  all.push_back({name, inputs, [](const Tensors& t) { return c10::IValue(expression); }})

std::vector<Question> questions() {
  const auto a = at::arange(8), b = at::arange(8), c = at::arange(8) + 1;
  const auto x = at::linspace(-2, 2, 12).view({3, 4}), y = x.clone();
  const auto far = x + 1e-3, nan = x.log();
  const auto yes = at::ones({}, at::kBool), no = at::zeros({}, at::kBool);
  const auto left = at::tensor({1, 1, 0, 1, 0, 0}, at::kInt).view({2, 3}).to(at::kBool),
             scattered = at::tensor({1, 0, 1, 0, 1, 1}, at::kInt).view({2, 3}).to(at::kBool);
  const auto padded = at::ones({2, 3, 4});
  std::vector<Question> all;
  ASK("equal, same values", IN(a, b), at::equal(t[0], t[1]));
  ASK("equal, other values", IN(a, c), at::equal(t[0], t[1]));
  ASK("equal, one differs", IN(x, y.clone().fill_diagonal_(7)), at::equal(t[0], t[1]));
  ASK("equal, floats", IN(x, y), at::equal(t[0], t[1]));
  ASK("equal, transposed", IN(x, y.t().contiguous().t()), at::equal(t[0], t[1]));
  ASK("equal, other shapes", IN(a, x), at::equal(t[0], t[1]));
  ASK("equal, NaN", IN(nan, nan.clone()), at::equal(t[0], t[1]));
  ASK("equal, empty", IN(a.narrow(0, 0, 0), b.narrow(0, 0, 0)), at::equal(t[0], t[1]));
  ASK("equal, bool", IN(left, scattered), at::equal(t[0], t[1]));
  ASK("equal, bf16", IN(x.to(at::kBFloat16), far.to(at::kBFloat16)), at::equal(t[0], t[1]));
  ASK("allclose", IN(x, y + 1e-7), at::allclose(t[0], t[1]));
  ASK("allclose, far", IN(x, far), at::allclose(t[0], t[1]));
  ASK("_nested_tensor_from_mask_left_aligned, left", IN(padded, left),
      at::_nested_tensor_from_mask_left_aligned(t[0], t[1]));
  ASK("_nested_tensor_from_mask_left_aligned, not", IN(padded, scattered),
      at::_nested_tensor_from_mask_left_aligned(t[0], t[1]));
  for (const auto& [name, flag] : {std::pair{"true", yes}, {"false", no}}) {
    ASK(name, IN(flag), t[0].is_nonzero());
    ASK(name, IN(flag), at::equal(t[0], t[0].new_ones({}, at::kBool)));
    ASK(name, IN(flag), t[0].item<bool>());
  }
  ASK("all", IN(x), (t[0] > -3).all().is_nonzero());
  ASK("any", IN(x), (t[0] > 3).any().is_nonzero());
  ASK("item", IN(a), t[0].sum().item());
  ASK("argmax", IN(x), t[0].argmax().item());
  ASK("cov with weights", IN(x, at::tensor({1, 2, 3, 4})), at::cov(t[0], 1, t[1]).sum().item());
  ASK("cov, a negative weight", IN(x, at::tensor({1, 2, -3, 4})),
      at::cov(t[0], 1, t[1]).sum().item());
  ASK("isin", IN(a, c), at::isin(t[0], t[1]).sum().item());
  ASK("one_hot", IN(a), at::one_hot(t[0]).size(1));
  ASK("bincount", IN(c), t[0].bincount().size(0));
  ASK("histc", IN(x), t[0].histc(4).sum().item());
  ASK("masked_select", IN(x), t[0].masked_select(t[0] > 0).size(0));
  ASK("repeat_interleave", IN(c), at::repeat_interleave(t[0]).size(0));
  ASK("unique", IN(a.remainder(3)), std::get<0>(at::_unique2(t[0])).size(0));
  ASK("multinomial, a bad distribution", IN(-x.abs()), at::multinomial(t[0], 1).numel());
  ASK("bernoulli, a bad probability", IN(x.abs() + 2), at::bernoulli(t[0]).numel());
  ASK("tensor_split by a tensor", IN(x, at::tensor({1, 2})),
      t[0].tensor_split(t[1].cpu())[1].size(0));
  ASK("segment_reduce", IN(x, at::tensor({1, 2})),
      at::segment_reduce(t[0], "max", t[1]).sum().item());
  ASK("segment_reduce, lengths that do not fit", IN(x, at::tensor({1, 3})),
      at::segment_reduce(t[0], "max", t[1]).sum().item());
  ASK("ctc_loss by lengths on the device",
      IN(at::log_softmax(at::linspace(0, 1, 60).view({5, 2, 6}), 2),
         at::tensor({1, 2, 3, 4}).view({2, 2}), at::tensor({5, 4}), at::tensor({2, 1})),
      at::ctc_loss(t[0], t[1], t[2], t[3]).item());
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
    enter("math");
  }
  void TearDown() override { enter("off"); }
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
