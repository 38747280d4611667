// Memory whose size a library of NVIDIA decides and does not publish: the platform takes a model.
#pragma once

#include <cstddef>
#include <string>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// A size in bytes that is that of a model: kept for the report, and said once a process, library
/// and scope on stderr. `library` by its name for people, as in "cuDNN". `scope`: the sizes that
/// were recorded, and what is known beyond them, as in "recorded from 1 to 32 columns"; empty: the
/// README says it. Returns `bytes`.
std::size_t modelled(const char* library, std::size_t bytes, const std::string& scope = "");

/// True if sizes of libraries were recorded on devices like this one: compute capability 9.0.
bool is_hopper();

}  // namespace tidemark::device

/// The largest size so far that is modelled of this library, in bytes; 0: none was asked for.
extern "C" std::size_t tidemark_modelled(const char* library);
#pragma GCC visibility pop
