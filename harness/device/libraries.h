// The libraries below PyTorch: those that this process has loaded, and the folders of all. Two sets
// have the same names: the virtual platform's, in one folder, and NVIDIA's; and there is a third
// NCCL.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tidemark {

/// The folder in which the loader finds the virtual platform for this program; empty where it does
/// not.
std::filesystem::path virtual_folder();

/// Beside it: the NCCL that goes through the host's memory on a real GPU.
std::filesystem::path staged_folder();

enum class Maker { virtual_platform, staged, nvidia };

struct Library {
  std::string name;  // "libcudart.so.13"
  std::filesystem::path path;
  Maker maker;
};
/// The libraries that this process has loaded, of those with the names of the virtual platform, in
/// the loader's order.
std::vector<Library> loaded_libraries();

/// True if this process's NCCL is the staged one.
bool collectives_are_staged();

/// NVML's library (libnvidia-ml.so.1) that belongs to the driver in this process: beside it, else
/// where the loader looks; of the virtual platform its own, and of NVIDIA's driver never that one.
/// Empty where there is none.
std::filesystem::path management_library();

/// The folders of NVIDIA's libraries: those of TIDEMARK_CUDA_LIBRARIES (separated by ':'), else
/// nvidia/*/lib beside the torch that is loaded, where pip and ci/setup --cuda put them.
std::vector<std::string> cuda_folders();

}  // namespace tidemark
