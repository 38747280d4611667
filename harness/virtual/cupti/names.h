// CUPTI's numbers of the functions of the runtime and of the driver (cupti_runtime_cbid.h,
// cupti_driver_cbid.h), which are the same in CUDA 12.1 to 13.2.
#pragma once

#include <cstdint>

#include "harness/virtual/device/activity.h"

namespace tidemark::cupti {

/// 0 where it has none.
std::uint32_t number_of(device::Api api, const char* function);
/// Null where it has none.
const char* name_of(device::Api api, std::uint32_t number);

}  // namespace tidemark::cupti
