// Requirements of a run on a GPU, as facts, and the one line that says which one is not met. Tests
// can try every refusal without the hardware.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tidemark {

/// Versions of CUDA and NCCL are numbers as their own calls give them (13000 is CUDA 13.0, 22809
/// NCCL 2.28.9). What has not been asked yet is 0 or empty, and nothing is refused for it.
struct CudaFacts {
  // Before NVIDIA's libraries are loaded.
  std::string driver;                  // the driver's libcuda.so.1; empty where there is none
  int driver_error = 0;                // of cuInit (CUresult)
  int driver_version = 0;              // the newest CUDA that it can serve
  int devices = 0;                     // that this process may see
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  std::vector<std::string> missing;    // of NVIDIA's libraries, by name
  std::string place;                   // where they were looked for
  // With them.
  std::string runtime_error;  // of the first call of the CUDA runtime
  int nccl = 0;
  std::string torch;
  // Sizes in a run.
  std::int64_t memory = 0, needed = 0;  // bytes of a GPU, and of a rank
  // Versions that this program was compiled against.
  int built_cuda = 0, built_nccl = 0;
  std::string built_torch;
};

/// As driver_error: the driver has not answered in time, or died of the question.
inline constexpr int kSilent = -1;

struct Refusal {
  std::string why;         // one line: what, where, what to do
  int code;                // 2 bad input, 3 infrastructure, 77 this machine cannot
  std::string brief = {};  // the same where no GPU was asked for: no advice; empty: `why`
};

/// The first thing that stands in the way of a run on a GPU, or nothing.
std::optional<Refusal> refusal(const CudaFacts& facts);

}  // namespace tidemark
