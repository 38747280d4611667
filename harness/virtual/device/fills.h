// Kernels of bitsandbytes that fill its states in managed memory (its paged optimizers). They are
// called beside PyTorch's operators, so nothing else computes them: they are carried out here.
#pragma once

#include <driver_types.h>

#include <functional>
#include <string>

namespace tidemark::device {

/// The effect of the kernel of this (mangled) name with these arguments, which are read at once;
/// empty if it is another kernel.
std::function<cudaError_t()> fill_of(const std::string& name, void** arguments);

}  // namespace tidemark::device
