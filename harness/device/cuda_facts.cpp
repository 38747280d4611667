#include "harness/device/cuda_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tidemark {
namespace {

// CUresult; its header is not for a function that must be tried anywhere.
constexpr int kStub = 34, kNoDevice = 100, kMismatch = 803;

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string nccl_version(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::optional<Refusal> refuse_driver(const CudaFacts& facts) {
  if (facts.driver.empty() || facts.driver_error == kStub)
    return Refusal{"no NVIDIA driver answers on this machine: install one, or use --device virtual",
                   77, "no NVIDIA driver found"};
  if (facts.driver_error == kMismatch)
    return Refusal{fmt::format("NVIDIA's {} and the driver in the kernel are of different "
                               "versions: restart the machine or the container",
                               facts.driver),
                   3};
  if (facts.driver_error == kSilent)
    return Refusal{fmt::format("NVIDIA's driver ({}) does not answer: nvidia-smi may say why; or "
                               "use --device virtual",
                               facts.driver),
                   3};
  if (facts.driver_error != 0 && facts.driver_error != kNoDevice)
    return Refusal{fmt::format("NVIDIA's driver does not start (cuInit: error {}): nvidia-smi may "
                               "say why; or use --device virtual",
                               facts.driver_error),
                   3};
  if (facts.driver_version / 1000 < facts.built_cuda / 1000)
    return Refusal{fmt::format("NVIDIA's driver serves CUDA {} at most, torch {} needs {}: update "
                               "the driver, or use --device virtual",
                               cuda_version(facts.driver_version), facts.built_torch,
                               cuda_version(facts.built_cuda)),
                   77};
  if (facts.devices > 0) return std::nullopt;
  if (facts.visible)
    return Refusal{fmt::format("CUDA_VISIBLE_DEVICES={} leaves this process no GPU: unset it, or "
                               "name one that nvidia-smi lists",
                               *facts.visible),
                   2};
  return Refusal{"NVIDIA's driver finds no GPU on this machine: use --device virtual", 77};
}

}  // namespace

std::optional<Refusal> refusal(const CudaFacts& facts) {
  if (auto refused = refuse_driver(facts)) return refused;
  if (!facts.missing.empty())
    return Refusal{fmt::format("NVIDIA's libraries are missing: {} (looked in {}): ci/setup --cuda "
                               "brings them, TIDEMARK_CUDA_LIBRARIES names other folders",
                               fmt::join(facts.missing, ", "), facts.place),
                   77};
  if (!facts.runtime_error.empty())
    return Refusal{
        fmt::format("the CUDA runtime does not start on {}: {}", facts.driver, facts.runtime_error),
        3};
  if (!facts.torch.empty() && facts.torch != facts.built_torch)
    return Refusal{fmt::format("this is torch {}, tidemark was built with {}: build again with "
                               "TIDEMARK_TORCH, or install torch {}",
                               facts.torch, facts.built_torch, facts.built_torch),
                   3};
  // The patch level may differ: what a caller sees of NCCL changes with the minor version.
  if (facts.nccl != 0 && facts.nccl / 100 != facts.built_nccl / 100)
    return Refusal{
        fmt::format("this is NCCL {}, torch {} needs {}: ci/setup --cuda brings it, "
                    "TIDEMARK_CUDA_LIBRARIES names other folders",
                    nccl_version(facts.nccl), facts.built_torch, nccl_version(facts.built_nccl)),
        3};
  if (facts.memory != 0 && facts.needed > facts.memory)
    return Refusal{fmt::format("a rank needs {}, this GPU has {}: choose a smaller --size, or use "
                               "--device virtual",
                               gib(facts.needed), gib(facts.memory)),
                   2};
  return std::nullopt;
}

}  // namespace tidemark
