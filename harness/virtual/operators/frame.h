// The CUDA operator whose host code this thread is in: what that calls in turn is not computed,
// since its numbers come from the operator's own CPU kernel.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/virtual/operators/signature.h"

namespace tidemark::operators {

struct Frame {
  const Signature& signature;
  const std::vector<c10::IValue>& arguments;
  bool counts = false;      // what it reads back is answered, or does not matter
  bool is_product = false;  // of two sparse matrices, which is told what it counts
  // Size of its result by the CPU kernel, for operators of which nothing but the schema is known.
  std::function<std::int64_t()> result_size = {};
  // An operator of an extension may look at what PyTorch's operators inside it give (a maximum of
  // lengths). They compute as long as it has launched nothing of its own, whose results do not
  // exist.
  bool of_extension = false;
  mutable std::uint64_t operations = 0;  // on the device, so far

  bool computes_inside() const;
  /// An operator inside has computed what it has put into streams.
  void note_computed() const;

  /// True if the tensor is a view of an argument: real numbers, where inner results are not.
  bool knows(const at::Tensor& tensor) const;
};
inline thread_local const Frame* outer = nullptr;

/// The thread is in an operator that looks whether a decomposition failed (operators.h,
/// looks_for_errors): what it reads for that, booleans and integers that are not known, says no.
inline thread_local bool asks_for_errors = false;

/// Enters a frame; null leaves the frames (inner operators then compute for themselves).
struct Inside {
  explicit Inside(const Frame* frame) : before(outer) { outer = frame; }
  ~Inside() { outer = before; }
  Inside(const Inside&) = delete;
  const Frame* before;
};

}  // namespace tidemark::operators
