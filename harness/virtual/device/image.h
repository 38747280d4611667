// Code images: which image of a fat binary, or of a module, runs on a device of some compute
// capability. Only headers are read; the code itself is never looked at.
#pragma once

#include <compare>
#include <string_view>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// Compute capabilities as CUDA numbers them (10 * major + minor); binary 0: no image runs.
struct Image {
  int binary = 0;  // of the machine code, compiled ahead of time or from PTX at load time
  int ptx = 0;     // of the PTX that it was compiled from
  auto operator<=>(const Image&) const = default;
};

/// The image that the driver takes for a device of `capability`: of the machine code of the same
/// major capability and no greater minor one, the greatest (code for one architecture alone, such
/// as sm_90a, only on exactly that); else of the PTX of no greater capability the greatest, which
/// is compiled for the device. `code` is what nvcc registers, a fat binary, a cubin or PTX text
/// (CUDA programming guide, "Binary compatibility" and "PTX compatibility"). Code of another format
/// runs anywhere.
Image choose_image(const void* code, int capability);

/// True if a file of code has all parts that it states, so that nothing beyond its end is read.
/// What nvcc registers in a program is no file, since it holds a pointer.
bool is_code_file(std::string_view file);

}  // namespace tidemark::device
#pragma GCC visibility pop
