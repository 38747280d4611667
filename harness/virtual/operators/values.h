// The known and unknown parts of a tensor in mode known, by the bytes of its elements
// (../device/known.h).
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

namespace tidemark::operators {

/// The bytes of a tensor's elements: runs of `run` bytes, repeated along the outer dimensions.
struct Place {
  const char* first = nullptr;
  std::size_t run = 0, span = 0;
  std::int64_t pieces = 1;
  c10::SmallVector<std::pair<std::int64_t, std::size_t>, 6> outer;  // size, stride in bytes

  /// False where there is nothing on the device to speak of.
  bool of(const at::Tensor& tensor);
  bool is_known() const;
  void mark(bool known) const;
};

/// True if every element has a value. Of a CPU tensor it has.
bool is_known(const at::Tensor& tensor);
/// A tensor of more than 16,384 separate pieces becomes unknown.
void mark(const at::Tensor& tensor, bool known);
void mark(const c10::IValue& value, bool known);

/// True if its values are kept: floating-point ones up to the limit
/// (tidemark_device_set_known_limit), all others up to 64 times that.
bool within_limit(const at::Tensor& tensor);
bool within_limit(const c10::IValue& value);

/// Fresh allocations of the caching allocator are unknown, from now on; once a process. On a thread
/// that has used CUDA.
void follow_allocations();

}  // namespace tidemark::operators
