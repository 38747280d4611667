// Facts of this machine that decide whether a program can run on its GPU (cuda_facts.h).
#pragma once

#include "harness/device/cuda_facts.h"

namespace tidemark {

/// Facts that are known before NVIDIA's libraries are loaded: asks the driver, which is the
/// libcuda.so.1 of TIDEMARK_CUDA_DRIVER or of the loader's folders, and looks for the others.
CudaFacts machine_facts();

/// With NVIDIA's libraries: their versions, and whether the runtime starts on the driver.
CudaFacts library_facts();

}  // namespace tidemark
