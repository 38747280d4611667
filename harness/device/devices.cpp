#include "harness/device/devices.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "harness/device/libraries.h"
#include "harness/device/platform.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

constexpr double kForRanks = 0.9;  // the rest is for their contexts and libraries

// Hosts of one name may be several (containers), and one host may have several names.
std::string host() {
  std::string boot = text_of_file("/proc/sys/kernel/random/boot_id").value_or("");
  boot.resize(std::min(boot.find('\n'), boot.size()));
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return boot + name;
}

int local_rank(const World& world) {
  const auto hosts = world.exchange(host());
  if (world.alone()) return 0;
  const auto own = hosts.begin() + world.rank();
  return static_cast<int>(std::count(hosts.begin(), own, *own));
}

void require_shareable(int device, std::size_t ranks) {
  int mode = cudaComputeModeDefault;
  if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  if (mode == cudaComputeModeExclusiveProcess)
    throw std::runtime_error(
        fmt::format("GPU {} accepts one process only and has {} ranks: give --ranks for as many as "
                    "there are GPUs, or set its compute mode to default",
                    device, ranks));
}

}  // namespace

std::vector<std::vector<int>> sharing(const std::vector<std::string>& gpus) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank)
    if (!gpus[rank].empty()) ranks[gpus[rank]].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> shared;
  for (const auto& [gpu, those] : ranks)
    if (those.size() > 1) shared.push_back(those);
  std::ranges::sort(shared);
  return shared;
}

std::string assign_gpu(const World& world) {
  const int gpus = c10::cuda::device_count();
  if (gpus < 1)
    throw std::runtime_error(
        "sees no GPU: does the machine have one, and does CUDA_VISIBLE_DEVICES name it? (--device "
        "virtual needs "
        "none)");
  // NCCL connects at the first collective otherwise: with memory that it takes, and calls that wait
  // for the device, in the middle of a step.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  const int device = local_rank(world) % gpus;
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
  std::size_t here = 1;  // ranks that have this GPU
  std::vector<std::string> parts;
  for (const auto& ranks :
       sharing(world.exchange(real_gpu() != nullptr ? real_gpu()->identity() : ""))) {
    parts.push_back(fmt::format("ranks {}", fmt::join(ranks, ", ")));
    if (std::ranges::find(ranks, world.rank()) != ranks.end()) here = ranks.size();
  }
  if (parts.empty()) return "";
  const bool staged = collectives_are_staged();
  std::string text =
      fmt::format("{} on one GPU: each with its part of {:.0f} % of the memory, {}",
                  fmt::join(parts, "; "), 100 * kForRanks,
                  staged ? "collectives through the host's memory (the staged NCCL, not NVIDIA's)"
                         : "and a NCCL_HOSTID of its own");
  if (here == 1) return text;
  require_shareable(device, here);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(kForRanks / static_cast<double>(here),
                                                     static_cast<c10::DeviceIndex>(device));
  if (!staged) setenv("NCCL_HOSTID", fmt::format("tidemark-rank-{}", world.rank()).c_str(), 0);
  return text;
}

}  // namespace tidemark
