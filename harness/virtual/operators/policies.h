// The answers of mode known to a program that looks at values which are not known. Each is stated
// in
// ../README.md, and each is an event: who asked, and what it was told.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "harness/virtual/operators/signature.h"

namespace tidemark::operators {

/// The host has read `answer` in place of what is not known. `decides`: a bool, by which the
/// program is likely to branch. Counted by tidemark_layer_on_event's function.
void tell(const std::string& operation, const std::string& answer, bool decides = false);

/// Policy of an operator whose arguments are not all known: it answers for its results and makes
/// them known, after its CUDA host code has run. Null if there is none.
using Policy = void (*)(const Signature& signature, const std::vector<c10::IValue>& arguments,
                        const std::vector<c10::IValue>& outputs);
Policy policy(const std::string& name);

/// Number of elements chosen of `elements` unknown ones (TIDEMARK_SIZES=50%); empty if
/// TIDEMARK_SIZES gives no part.
std::optional<std::int64_t> chosen_of(std::int64_t elements);
/// Reads TIDEMARK_SIZES: "balanced", "N%", or both with a comma. Throws std::runtime_error.
void read_sizes();

/// A CPU tensor is what the program reads of an unknown tensor of this type. Throws c10::Error
/// where there is no answer: integers.
void answer_copy(const std::string& operation, const at::Tensor& to, at::ScalarType type);
at::Scalar answer_item(at::ScalarType type);
/// Likewise of the bytes of unknown floats.
void answer_bytes(const std::string& operation, const at::Tensor& to, at::ScalarType floats);
/// Throws: the size of a result depends on values that are not known.
[[noreturn]] void refuse_size(const std::string& operation);

}  // namespace tidemark::operators
