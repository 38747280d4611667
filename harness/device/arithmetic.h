// The arithmetic in which numbers are computed: what the references' tolerances assume of PyTorch
// and of the libraries below it.
#pragma once

#include <string>

namespace tidemark {

/// Has PyTorch multiply fp32 in fp32 (no TF32) and add products of 16-bit numbers up in fp32, to
/// the end (no reduced-precision reductions). To be called before the first product; wins over
/// TORCH_ALLOW_TF32_CUBLAS_OVERRIDE.
void set_arithmetic();

struct Arithmetic {
  std::string text;    // for reports; the same text on two machines: the same kernels
  bool exact = false;  // these give the same bits every time: the CPU kernels of the virtual device
};
/// PyTorch's settings now, and the device that computes.
Arithmetic arithmetic();

/// Why numbers of this process would not be those of fp32, or empty. Of a real GPU (or a
/// rehearsal): NVIDIA_TF32_OVERRIDE is read by NVIDIA's libraries alone and wins over what a
/// program sets, so a product that TF32 rounds is tried besides. Computes on the current device, in
/// mode math.
std::string arithmetic_fault();

}  // namespace tidemark
