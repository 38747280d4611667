// Where unknown integers come from: counts of right answers, and the bytes of floats. These have an
// answer in mode known, and other integers have none.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tidemark::operators {

/// The values of the tensor's storage are unknown booleans, one for each known answer (labels) with
/// which the program compares what it has computed, or what elementwise operators make of them.
/// This holds while the storage lives, for the last kMost ones.
void note_judged(const at::Tensor& tensor);
bool is_judged(const at::Tensor& tensor);

/// Likewise, the storage has floats of this type, which the program reads as bytes; or such bytes
/// one after the other (float, of several types).
void note_floats(const at::Tensor& bytes, at::ScalarType type);
/// The type of the floats that an unknown tensor of bytes reads; none: it is not known to read
/// some.
std::optional<at::ScalarType> floats_below(const at::Tensor& bytes);

}  // namespace tidemark::operators
