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
/// The name of the profile that is set, and the bytes of its GPU.
std::string linked_profile();
std::int64_t linked_capacity();
/// Bytes that CUDA's context and NCCL hold outside PyTorch's allocator on such a GPU, at most as
/// far as it is known; 0: the profile does not say it.
std::int64_t linked_context();
std::int64_t linked_nccl();

}  // namespace tidemark
