#include "harness/memory/places.h"

#include <fmt/format.h>

namespace tidemark {

std::string name_of(const ProcessRecord& process) {
  return process.rank ? fmt::format("rank {}", *process.rank)
                      : fmt::format("process {}", process.pid);
}

std::string place_of(const ProcessRecord& process, const DeviceRecord& device) {
  return device.device == 0 && process.devices.size() == 1
             ? name_of(process)
             : fmt::format("{} cuda:{}", name_of(process), device.device);
}

std::string place_name(const std::string& snapshot, std::size_t device) {
  std::string out = snapshot;
  const std::size_t number = out.find_first_of("0123456789");
  if (number != out.npos && (out.substr(0, number) == "rank" || out.substr(0, number) == "process"))
    out.insert(number, " ");
  return device == 0 ? out : fmt::format("{} cuda:{}", out, device);
}

std::string place_name(const std::string& snapshot, std::size_t device, bool several) {
  return place_name(snapshot, device) + (several && device == 0 ? " cuda:0" : "");
}

std::string unrecorded(const ProcessRecord& process) {
  return name_of(process) +
         " used CUDA memory, and no peaks were recorded for it: it is not a Python that imports "
         "torch, or bypasses PyTorch's allocator";
}

std::string name_of(std::optional<int> rank, const std::string& variant) {
  if (!rank) return variant;
  return fmt::format("rank {}{}{}", *rank, variant.empty() ? "" : " ", variant);
}

std::string DeviceAt::name() const { return name_of(process->rank, variant); }

std::vector<DeviceAt> devices_of(const ProgramRecord& program) {
  std::vector<DeviceAt> out;
  int alone = 0;
  for (const ProcessRecord& process : program.processes) {
    std::string of_process = process.rank ? "" : fmt::format("process {}", ++alone);
    for (const DeviceRecord& device : process.devices) {
      std::string variant = of_process;
      if (process.devices.size() > 1)
        variant += fmt::format("{}cuda:{}", variant.empty() ? "" : " ", device.device);
      out.push_back({&process, &device, std::move(variant)});
    }
  }
  return out;
}

}  // namespace tidemark
