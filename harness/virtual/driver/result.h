// Results of the driver's calls, which have the same numbers as the runtime's.
#pragma once

#include <cuda.h>

#include "harness/virtual/device/failure.h"

/// As tidemark::device::call, for the driver's entry points.
template <class Body, class... Arguments>
class answer {
 public:
  answer(Body&& body, Arguments&&... arguments, const char* function = __builtin_FUNCTION()) {
    if (const cudaError_t sticky = tidemark::device::sticky_error()) {
      result_ = static_cast<CUresult>(sticky);
      return;
    }
    const tidemark::device::CallRecord record(tidemark::device::Api::driver, function);
    result_ = static_cast<CUresult>(body(std::forward<Arguments>(arguments)...));
  }
  operator CUresult() const { return result_; }

 private:
  CUresult result_;
};
template <class Body, class... Arguments>
answer(Body&&, Arguments&&...) -> answer<Body, Arguments...>;
