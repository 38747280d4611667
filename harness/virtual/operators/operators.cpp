#include "harness/virtual/operators/operators.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {
using Names = std::unordered_set<std::string>;

bool any_tensor(const torch::jit::Stack& stack, bool (*is)(const at::Tensor&)) {
  return std::ranges::any_of(
      stack, [is](const c10::IValue& value) { return value.isTensor() && is(value.toTensor()); });
}

// PyTorch's boxed form of an operator with several out tensors drops its arguments before it pushes
// references to them as results: the caller has to hold them until it has returned.
void call_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const torch::jit::Stack kept_arguments = stack;
  if (any_tensor(stack, has_parts)) return op.callBoxed(&stack);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

// The CUDA kernel takes these types, since the operator's host code has run. The CPU's may lack
// their mix, as bf16 weights beside float statistics, or any kernel for half precision.
bool speaks_of_types(const std::string& message) {
  for (const char* words :
       {"not implemented for", "dtype", "scalar type", "data type", "tensors of type"})
    if (message.find(words) != std::string::npos) return true;
  return false;
}

std::optional<at::ScalarType> wider(at::ScalarType type) {
  if (type == at::kHalf || type == at::kBFloat16) return at::kFloat;
  if (type == at::kComplexHalf) return at::kComplexFloat;
  return std::nullopt;
}

/// Tensors of half precision in float. False where there are none.
bool widen(torch::jit::Stack& stack) {
  bool any = false;
  const auto widened = [&any](const at::Tensor& tensor) {
    const auto type = tensor.defined() ? wider(tensor.scalar_type()) : std::nullopt;
    any = any || type;
    return type ? tensor.to(*type) : tensor;
  };
  for (c10::IValue& value : stack) {
    if (value.isTensor()) {
      value = widened(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(widened(tensor));
      value = list;
    }
  }
  return any;
}

// CUDA divides integers by zero without an error, and PyTorch documents that the result is any
// value: here that of a division by one.
void divide(HostCall& call) {
  const at::Tensor by = call.stack[1].toTensor();
  call.stack[1] = by.masked_fill(by == 0, 1);
  call_cpu_kernel(call.op, call.stack);
}

/// Copies values that an operator has written into wider copies of its arguments back into them.
void copy_written(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments,
                  const torch::jit::Stack& wide) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) store(arguments[i], wide[i], toString(schema.operator_name()));
  }
}

bool starts_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
  for (const char* prefix : prefixes)
    if (name.rfind(prefix, 0) == 0) return true;
  return false;
}
}  // namespace

bool computes_sparse(const std::string& name) {
  static const Names names{"aten::add.out",
                           "aten::addmm",
                           "aten::addmm_",
                           "aten::addmm.out",
                           "aten::addmv.out",
                           "aten::baddbmm.out",
                           "aten::bmm",
                           "aten::bmm.out",
                           "aten::hspmm",
                           "aten::hspmm.out",
                           "aten::index_select",
                           "aten::mul.out",
                           "aten::sparse_mask",
                           "aten::sparse_sampled_addmm",
                           "aten::sparse_sampled_addmm.out",
                           "aten::sspaddmm.out",
                           "aten::triangular_solve.X",
                           "aten::_coalesce",
                           "aten::_sparse_csr_prod.dim_dtype",
                           "aten::_sparse_csr_sum.dim_dtype",
                           "aten::_sparse_log_softmax",
                           "aten::_sparse_log_softmax_backward_data",
                           "aten::_sparse_mask_projection",
                           "aten::_sparse_softmax",
                           "aten::_sparse_softmax_backward_data",
                           "aten::_sparse_sparse_matmul",
                           "aten::_sparse_sum_backward",
                           "aten::_spsolve"};
  return names.count(name) != 0;
}

bool computes_nested(const std::string& name) {
  static const Names names{"aten::add.Tensor",
                           "aten::add_.Tensor",
                           "aten::bmm",
                           "aten::div.Tensor",
                           "aten::mul.Tensor",
                           "aten::mul_.Tensor",
                           "aten::native_layer_norm",
                           "aten::native_layer_norm_backward",
                           "aten::sub.Tensor",
                           "aten::to_padded_tensor",
                           "aten::_native_multi_head_attention",
                           "aten::_nested_from_padded_and_nested_example",
                           "aten::_nested_tensor_softmax_with_shape",
                           "aten::_transform_bias_rescale_qkv",
                           "aten::_transformer_encoder_layer_fwd"};
  return names.count(name) != 0;
}

bool made_of_operators(const std::string& name, const c10::IValue* arguments) {
  if (name == "aten::sparse_mask")
    return !is_sparse(arguments[0].toTensor()) && arguments[1].toTensor().layout() != c10::kSparse;
  return name == "aten::add.out" && arguments[0].isTensor() && arguments[1].isTensor() &&
         is_sparse(arguments[0].toTensor()) && is_sparse(arguments[1].toTensor()) &&
         arguments[0].toTensor().layout() == c10::kSparse;
}

bool computes_nothing(const std::string& name) {
  static const Names names{"aten::empty.memory_format",
                           "aten::empty_strided",
                           "aten::record_stream",
                           "aten::resize_",
                           "aten::is_pinned",
                           "aten::_pin_memory",
                           "aten::is_set_to",
                           "aten::_efficientzerotensor",
                           "aten::_fused_sdp_choice",
                           "aten::_use_cudnn_ctc_loss",
                           "aten::_use_cudnn_ctc_loss.Tensor",
                           "aten::_use_miopen_ctc_loss",
                           "aten::_use_miopen_ctc_loss.Tensor"};
  return names.count(name) || starts_with_any(name, {"aten::set_.", "aten::_to_sparse"}) ||
         name == "aten::set_";
}

bool reads_inner_values(const std::string& name) {
  static const Names names{"aten::bincount",
                           "aten::histc",
                           "aten::histc.out",
                           "aten::repeat_interleave.Tensor",
                           "aten::isin.Tensor_Tensor",
                           "aten::isin.Tensor_Tensor_out",
                           "aten::segment_reduce",
                           "aten::multinomial",
                           "aten::multinomial.out",
                           "aten::_cudnn_rnn_flatten_weight",
                           "aten::_nested_from_padded",
                           "aten::_nested_tensor_from_mask",
                           "aten::linalg_matrix_exp",
                           "aten::linalg_eig",
                           "aten::linalg_eig.out",
                           "aten::_linalg_eigvals",
                           "aten::searchsorted.Tensor",
                           "aten::searchsorted.Tensor_out",
                           "aten::normal.float_Tensor",
                           "aten::normal.float_Tensor_out",
                           "aten::normal.Tensor_Tensor",
                           "aten::normal.Tensor_Tensor_out"};
  return names.count(name) != 0;
}

bool counts(const std::string& name) {
  static const Names names{
      "aten::nonzero",   "aten::nonzero.out",        "aten::_unique",
      "aten::_unique2",  "aten::unique_consecutive", "aten::embedding_renorm_",
      "aten::_coalesce", "aten::unique_dim",         "aten::unique_dim_consecutive"};
  return names.count(name) != 0;
}

// torch.mode reads places within its own buffers. It allocates those of the distinct elements after
// the larger ones of its sort.
bool reads_whatever(const std::string& name) { return name == "aten::mode"; }

bool looks_for_errors(const std::string& name) {
  static const Names names{"aten::_linalg_check_errors", "aten::_linalg_svd",
                           "aten::_linalg_svd.U"};
  return names.count(name) != 0;
}

bool needs_values(const std::string& name) {
  static const Names names{"aten::nonzero",
                           "aten::nonzero.out",
                           "aten::masked_select",
                           "aten::masked_select.out",
                           "aten::_unique",
                           "aten::_unique2",
                           "aten::unique_dim",
                           "aten::unique_consecutive",
                           "aten::unique_dim_consecutive",
                           "aten::bincount",
                           "aten::equal",
                           "aten::mode",
                           "aten::embedding_renorm_",
                           "aten::_coalesce",
                           "aten::_sparse_sparse_matmul",
                           "aten::_nested_tensor_from_mask_left_aligned"};
  return names.count(name) != 0;
}

bool overwrites(const std::string& name) {
  static const Names names{"aten::copy_",          "aten::zero_",          "aten::normal_",
                           "aten::uniform_",       "aten::exponential_",   "aten::cauchy_",
                           "aten::log_normal_",    "aten::geometric_",     "aten::_foreach_zero_",
                           "aten::_foreach_copy_", "aten::_cummax_helper", "aten::_cummin_helper"};
  return names.count(name) ||
         starts_with_any(name, {"aten::fill_.", "aten::random_", "aten::bernoulli_."});
}

std::vector<std::size_t> silently_written(const std::string& name) {
  static const std::unordered_map<std::string, std::vector<std::size_t>> all{
      {"aten::native_batch_norm", {3, 4}},
      {"aten::native_batch_norm.out", {3, 4}},
      {"aten::cudnn_batch_norm", {3, 4}},
      {"aten::cudnn_batch_norm.out", {3, 4}},
      {"aten::_cudnn_rnn", {15}},
      {"aten::batch_norm_gather_stats", {3, 4}},
      {"aten::batch_norm_gather_stats_with_counts", {3, 4}}};
  const auto positions = all.find(name);
  return positions == all.end() ? std::vector<std::size_t>{} : positions->second;
}

bool draws_silently(const std::string& name) {
  static const Names names{"aten::native_dropout",
                           "aten::_scaled_dot_product_flash_attention",
                           "aten::_scaled_dot_product_efficient_attention",
                           "aten::_scaled_dot_product_cudnn_attention",
                           "aten::_cudnn_attention_forward",
                           "aten::_flash_attention_forward",
                           "aten::_efficient_attention_forward"};
  return names.count(name) != 0;
}

bool gathers(const std::string& name) {
  static const Names names{"aten::index.Tensor", "aten::index.Tensor_out",
                           "aten::index_select", "aten::index_select.out",
                           "aten::gather",       "aten::gather.out",
                           "aten::take",         "aten::take.out",
                           "aten::embedding"};
  return names.count(name) != 0;
}

bool touches_pinned_memory(const std::string& name) {
  static const Names names{"aten::_local_scalar_dense", "aten::copy_", "aten::fill_.Scalar",
                           "aten::zero_", "aten::equal"};
  return names.count(name) != 0;
}

bool is_communication(const std::string& name) {
  return starts_with_any(name, {"c10d::", "_c10d_functional::", "symm_mem::"});
}

std::int64_t count_on_host(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  const std::string name = c10::toString(op.operator_name());
  if (name == "aten::nonzero" || name == "aten::nonzero.out")
    return at::nonzero(stack[0].toTensor()).size(0);
  if (name == "aten::embedding_renorm_")
    return std::get<0>(at::_unique2(stack[1].toTensor())).size(0);
  const at::Tensor self = stack[0].toTensor();
  // CUDA counts the booleans that are true.
  if (name.starts_with("aten::_unique") && self.scalar_type() == at::kBool)
    return at::count_nonzero(self).item<std::int64_t>();
  std::int64_t dim = name.starts_with("aten::unique_dim") ? stack[1].toInt() : 0;
  if (name == "aten::unique_consecutive" && !stack[3].isNone()) dim = stack[3].toInt();
  call_cpu_kernel(op, stack);
  return is_sparse(stack[0].toTensor()) ? parts_of(stack[0].toTensor())[0].size(-1)
                                        : stack[0].toTensor().size(dim);
}

void run_cpu_kernel(HostCall& call) {
  const torch::jit::Stack arguments = call.stack;
  try {
    return call_cpu_kernel(call.op, call.stack);
  } catch (const c10::Error& error) {
    call.stack = arguments;
    if (error.msg().find("ZeroDivisionError") != std::string::npos) return divide(call);
    if (!speaks_of_types(error.msg()) || !widen(call.stack)) throw;
    call.stack = arguments;
  }
  run_cpu_kernel_in_float(call);
}

void run_cpu_kernel_in_float(HostCall& call) {
  const torch::jit::Stack arguments = call.stack;
  widen(call.stack);
  const torch::jit::Stack wide = call.stack;
  call_cpu_kernel(call.op, call.stack);
  copy_written(call.op.schema(), arguments, wide);
}

void run_host_kernel(HostCall& call, const HostKernel& compose) {
  if (any_tensor(call.stack, is_nested)) return nested_kernel(call);
  compose ? compose(call) : run_cpu_kernel(call);
}

HostKernel composition(const std::string& name) {
  static const std::unordered_map<std::string, HostKernel> all = [] {
    std::unordered_map<std::string, HostKernel> table;
    for (const auto add :
         {add_attention, add_batch_norm, add_cells, add_convolution, add_ctc, add_dropout,
          add_embedding_bag, add_grouped_matmul, add_histogram, add_linalg, add_matmul, add_nested,
          add_norms, add_rnn, add_sampler, add_scaled_matmul, add_softmax, add_differences})
      add(table);
    return table;
  }();
  const auto kernel = all.find(name);
  return kernel == all.end() ? HostKernel{} : kernel->second;
}

}  // namespace tidemark::operators
