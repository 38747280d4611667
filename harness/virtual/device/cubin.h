// Facts that a cubin, an ELF file of machine code, states about its kernels.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace tidemark::device {

struct CompiledKernel {
  int registers = 0;       // of a thread
  int max_threads = 1024;  // of a block
  std::size_t shared = 0;  // static, bytes of a block
  std::size_t local = 0;   // bytes of a thread's stack
  /// Bytes of each parameter. None: the file's entries do not add up to the size that it states.
  std::optional<std::vector<std::size_t>> parameters;
};

/// Reads the value at `from`, aligned or not.
template <class T>
T value_at(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool is_cubin(const char* code);
/// By mangled name. None where `code` is no cubin (PTX text, a fat binary). The sections are as
/// `cuobjdump -elf` prints them: .nv.info (EIATTR_REGCOUNT, EIATTR_FRAME_SIZE), .nv.info.KERNEL
/// (EIATTR_KPARAM_INFO, EIATTR_CBANK_PARAM_SIZE, EIATTR_REQNTID, EIATTR_MAX_THREADS),
/// .nv.shared.KERNEL.
std::optional<std::map<std::string, CompiledKernel>> kernels_of(const void* code);
/// True if a file has all sections that it states, where it is a cubin.
bool is_whole(std::string_view file);

}  // namespace tidemark::device
#pragma GCC visibility pop
