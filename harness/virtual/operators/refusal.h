// Refusals of the operator layer: errors that name the operator, in place of values that were
// never computed.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "harness/virtual/operators/device_calls.h"

namespace tidemark::operators {

/// Throws an error with the words of `why`, which is noted as a refusal of the platform
/// (tidemark_device_is_refusal). A c10::NotImplementedError says that the CPU lacks this
/// form of an operator: in mode known its results are then not known.
template <class Error, class... Words>
[[noreturn]] void refuse(const Words&... why) {
  const std::string text = c10::str(why...);
  device.note_refusal(text.c_str());
  throw Error({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, text);
}

}  // namespace tidemark::operators
