// The platforms that platform() chooses among.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "harness/device/platform.h"

namespace tidemark {

/// The virtual device; null where the libraries below PyTorch are not its own.
std::unique_ptr<Platform> virtual_platform();
/// A real GPU.
std::unique_ptr<Platform> cuda_platform();
/// A rehearsal: cuda_platform() on the virtual device `below` at its calibrated clock.
std::unique_ptr<Platform> rehearsal_platform(std::unique_ptr<Platform> below);

/// Properties of the current device.
cudaDeviceProp device_properties();

}  // namespace tidemark
