#include "harness/virtual/operators/alias.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>

#include <algorithm>
#include <cstring>

namespace tidemark::operators {

namespace {

at::Tensor sparse_alias(const at::Tensor& tensor) {
  std::vector<at::Tensor> parts = parts_of(tensor);
  for (at::Tensor& part : parts) part = host_alias(part);
  if (tensor.layout() == c10::kSparse) {
    auto alias = at::detail::make_tensor<at::SparseTensorImpl>(
        c10::DispatchKeySet(c10::DispatchKey::SparseCPU), tensor.dtype());
    auto* const impl = static_cast<at::SparseTensorImpl*>(alias.unsafeGetTensorImpl());
    const auto* const from = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    impl->resize_(from->sparse_dim(), from->dense_dim(), tensor.sizes());
    impl->set_indices_and_values_unsafe(parts[0], parts[1]);
    impl->set_coalesced(from->coalesced());
    return alias;
  }
  auto alias = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::SparseCsrCPU), c10::Device(c10::kCPU), tensor.layout(),
      tensor.dtype());
  static_cast<at::SparseCsrTensorImpl*>(alias.unsafeGetTensorImpl())
      ->set_member_tensors(parts[0], parts[1], parts[2], tensor.sizes());
  return alias;
}

at::native::NestedTensorImpl* nested_impl(const at::Tensor& tensor) {
  return static_cast<at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// Its sizes are on the host already.
at::Tensor nested_alias(const at::Tensor& tensor) {
  const auto* const impl = nested_impl(tensor);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      host_alias(impl->get_unsafe_storage_as_tensor()), impl->get_nested_sizes(),
      impl->get_nested_strides(), impl->get_storage_offsets());
}

void store_nested(const at::Tensor& output, const at::Tensor& result, const std::string& what) {
  TORCH_CHECK(is_nested(result) && at::equal(nested_impl(output)->get_nested_sizes(),
                                             nested_impl(result)->get_nested_sizes()),
              what, " has no numbers for these arguments: its CPU kernel gives other sizes");
  const auto outputs = host_alias(output).unbind(), results = result.unbind();
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].copy_(results[i]);
}

}  // namespace

bool is_nested(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_nested() && tensor.layout() == c10::kStrided;
}

bool has_parts(const at::Tensor& tensor) { return is_sparse(tensor) || is_nested(tensor); }

bool is_sparse(const at::Tensor& tensor) {
  return tensor.defined() &&
         (tensor.layout() == c10::kSparse || at::sparse_csr::is_sparse_compressed(tensor));
}

std::vector<at::Tensor> parts_of(const at::Tensor& tensor) {
  if (is_nested(tensor)) return {nested_impl(tensor)->get_unsafe_storage_as_tensor()};
  if (tensor.layout() == c10::kSparse) {
    const auto* const impl = static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    return {impl->indices(), impl->values()};
  }
  auto* const impl = static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
  return {impl->compressed_indices(), impl->plain_indices(), impl->values()};
}

at::Tensor host_alias(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  if (is_sparse(tensor)) return sparse_alias(tensor);
  if (is_nested(tensor)) return nested_alias(tensor);
  const c10::Storage& storage = tensor.storage();
  auto* memory = const_cast<void*>(storage.data());
  c10::Storage view(c10::Storage::use_byte_size_t(), storage.nbytes(),
                    c10::DataPtr(memory, c10::Device(c10::kCPU)), nullptr, /*resizable=*/false);
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      std::move(view), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl* impl = alias.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (tensor.is_conj()) alias._set_conj(true);
  if (tensor.is_neg()) alias._set_neg(true);
  return alias;
}

c10::IValue host_alias(const c10::IValue& value) {
  if (value.isTensor()) return host_alias(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(host_alias(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::make_optional(host_alias(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(c10::kCPU);
  return value;
}

void store(const at::Tensor& output, const at::Tensor& result, const std::string& what) {
  if (!output.defined() || !result.defined()) return;
  if (is_sparse(output) && is_sparse(result)) {
    const auto parts = parts_of(output), of_result = parts_of(result);
    for (std::size_t i = 0; i < parts.size(); ++i) store(parts[i], of_result[i], what);
    return;
  }
  if (is_nested(output)) return store_nested(output, result, what);
  TORCH_CHECK(output.sizes() == result.sizes(), what,
              " has no numbers for these arguments: its CPU kernel gives ", result.sizes(),
              " where CUDA gives ", output.sizes());
  if (output.numel() == 0) return;
  const at::Tensor alias = host_alias(output);
  void* to = alias.data_ptr();
  const void* from = result.const_data_ptr();
  if (to == from) return;
  if (alias.dtype() == result.dtype() && alias.strides() == result.strides() &&
      alias.is_non_overlapping_and_dense() && !alias.is_conj() && !result.is_conj() &&
      !alias.is_neg() && !result.is_neg()) {
    std::memcpy(to, from, alias.nbytes());
    return;
  }
  alias.copy_(result);
}

void store(const c10::IValue& output, const c10::IValue& result, const std::string& what) {
  if (output.isTensor() && result.isTensor()) {
    store(output.toTensor(), result.toTensor(), what);
  } else if (output.isTensorList() && result.isTensorList()) {
    const auto outputs = output.toTensorVector(), results = result.toTensorVector();
    TORCH_CHECK(outputs.size() == results.size(), what,
                ": its CPU kernel gives another number of tensors");
    for (std::size_t i = 0; i < outputs.size(); ++i) store(outputs[i], results[i], what);
  }
}

std::uint64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided) return 0;
  std::uint64_t elements = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0 || tensor.stride(i) != 0)
      elements *= static_cast<std::uint64_t>(tensor.size(i));
  }
  return elements * tensor.element_size();
}

bool all_tensors(const c10::IValue& value, const std::function<bool(const at::Tensor&)>& use) {
  const auto uses = [&use](const at::Tensor& tensor) {
    if (!tensor.defined()) return true;
    if (!has_parts(tensor)) return use(tensor);
    return std::ranges::all_of(parts_of(tensor), use);
  };
  if (value.isTensor()) return uses(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      if (!uses(tensor)) return false;
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor && !uses(*tensor)) return false;
  }
  return true;
}

void each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& use) {
  all_tensors(value, [&](const at::Tensor& tensor) {
    use(tensor);
    return true;
  });
}

std::uint64_t bytes_of(const c10::IValue& value) {
  std::uint64_t bytes = 0;
  each_tensor(value, [&](const at::Tensor& tensor) { bytes += bytes_of(tensor); });
  return bytes;
}

}  // namespace tidemark::operators
