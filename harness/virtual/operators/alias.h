// Host aliases: CPU tensors over the memory of CUDA tensors, which on the virtual device is
// ordinary memory.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <string>

namespace tidemark::operators {

/// COO, CSR, CSC, BSR, BSC.
bool is_sparse(const at::Tensor& tensor);
/// Tensors of different sizes in one buffer. Those of torch.jagged are not: Python keeps their
/// parts.
bool is_nested(const at::Tensor& tensor);
/// True if a tensor is made of others, as both of these are.
bool has_parts(const at::Tensor& tensor);
/// Its indices and values, or its buffer.
std::vector<at::Tensor> parts_of(const at::Tensor& tensor);

/// Returns an alias with the tensor's sizes, strides, offset, conj and neg bits and wrapped-number
/// flag. CPU tensors and undefined ones come back.
at::Tensor host_alias(const at::Tensor& tensor);
/// Tensors, lists and optional lists of them aliased; a CUDA device becomes the CPU; all else as it
/// is.
c10::IValue host_alias(const c10::IValue& value);

/// Writes a CPU result into a device output. Throws when sizes differ; `what` names the operator.
void store(const at::Tensor& output, const at::Tensor& result, const std::string& what);

/// Writes a tensor or a list of them; anything else stays as it is.
void store(const c10::IValue& output, const c10::IValue& result, const std::string& what);

/// Until `use` says false; tensors, lists and optional lists of them, the defined ones.
bool all_tensors(const c10::IValue& value, const std::function<bool(const at::Tensor&)>& use);
/// All of them.
void each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& use);

/// Bytes of memory behind a tensor's elements; an expanded dimension counts once.
std::uint64_t bytes_of(const at::Tensor& tensor);
std::uint64_t bytes_of(const c10::IValue& value);

}  // namespace tidemark::operators
