// Operators that give a value on the host: PyTorch's list of them is that of sweep_host_values.cpp.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace {

// The list is PyTorch's own: an operator of a later version that gives a host value, and that
// nothing here asks about, fails.
TEST(HostValues, EveryOperatorThatGivesOneIsKnown) {
  const std::map<std::string, std::string> known{
      {"aten::equal", "in sweep_host_values.cpp"},
      {"aten::_nested_tensor_from_mask_left_aligned", "in sweep_host_values.cpp"},
      {"aten::_local_scalar_dense", "in sweep_host_values.cpp, as item"},
      {"aten::is_set_to", "of pointers and sizes"},
      {"aten::_fused_sdp_choice", "of sizes and types"},
      {"aten::_use_cudnn_ctc_loss", "of sizes"},
      {"aten::_use_cudnn_ctc_loss.Tensor", "of sizes"},
      {"aten::_use_miopen_ctc_loss", "of sizes"},
      {"aten::_use_miopen_ctc_loss.Tensor", "of sizes"},
      {"aten::_cslt_sparse_mm_search", "refused: no CPU kernel"},
      {"aten::_cudnn_attention_forward", "lengths, of sizes"},
      {"aten::_scaled_dot_product_cudnn_attention", "lengths, of sizes"},
      {"aten::_scaled_dot_product_flash_attention", "lengths, of sizes"},
      {"aten::_scaled_dot_product_flash_attention.quantized", "refused: no CPU kernel"},
      {"aten::_efficient_attention_forward", "lengths, of sizes"}};
  std::set<std::string> actual_names;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    const std::string text = c10::toString(name);
    for (const c10::Argument& result : op->schema().returns())
      if (result.real_type()->str().find("Tensor") == std::string::npos &&
          text.starts_with("aten::"))
        actual_names.insert(text);
  }
  std::set<std::string> names;
  for (const auto& [name, why] : known) names.insert(name);
  EXPECT_EQ(names, actual_names);
}

}  // namespace
