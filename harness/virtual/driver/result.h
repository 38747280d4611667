// Results of the driver's calls, which have the same numbers as the runtime's.
#pragma once

#include <cuda.h>

#include "harness/virtual/device/failure.h"

template <class Body, class... Arguments>
CUresult answer(Body&& body, Arguments&&... arguments) {
  if (const cudaError_t sticky = tidemark::device::sticky_error())
    return static_cast<CUresult>(sticky);
  return static_cast<CUresult>(body(std::forward<Arguments>(arguments)...));
}
