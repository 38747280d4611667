// The virtual device of a program that links it directly and has no PyTorch: `tidemark exec` checks
// its flags with it and names the folder for others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tidemark {

/// The folder of the virtual platform's libraries.
std::filesystem::path linked_folder();
/// The fault of these settings (profile by name or file, bytes; empty: not given), or empty.
std::string check_linked_settings(const std::string& gpu, const std::string& capacity);

/// Sets bytes aside that programs cannot allocate, in place of the profile's context and NCCL. The
/// fault, or empty.
std::string set_linked_reserve(std::int64_t bytes);

/// The GPU of the profile that is set. A program can allocate `capacity`, beside which CUDA's
/// context or what was set aside holds `context`; the first communicator of NCCL takes `nccl` of
/// the capacity. In bytes; 0: nothing, or not known.
struct LinkedGpu {
  std::string profile, file;
  std::int64_t capacity = 0, context = 0, nccl = 0;
};
/// Throws std::runtime_error in one line where there is no virtual device.
LinkedGpu linked_gpu();

}  // namespace tidemark
