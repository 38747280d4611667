// Memory whose size a library of NVIDIA decides and does not publish: the platform takes a model.
#pragma once

#include <cstddef>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// A size in bytes that is that of a model: kept for the report, and said once a process and
/// library on stderr. `library` by its name for people, as in "cuDNN". Returns `bytes`.
std::size_t modelled(const char* library, std::size_t bytes);

/// True if sizes of libraries were recorded on devices like this one: compute capability 9.0.
bool is_hopper();

}  // namespace tidemark::device

/// The largest size so far that is modelled of this library, in bytes; 0: none was asked for.
extern "C" std::size_t tidemark_modelled(const char* library);
#pragma GCC visibility pop
