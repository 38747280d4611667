#include <map>
#include <nlohmann/json.hpp>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/names.h"

namespace tidemark::device {
std::vector<std::pair<std::string, std::uint64_t>> kernel_counts();  // kernel.cpp
std::size_t live_events();                                           // event.cpp
}  // namespace tidemark::device

using namespace tidemark::device;

size_t tidemark_device_describe(char* text, size_t size) {
  auto [e, lock] = locked();
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [name, count] : kernel_counts()) counts[readable(name)] += count;
  const Profile& p = e.profile;
  nlohmann::ordered_json j = {
      {"profile", p.name},
      {"profile_file", p.file},
      {"device", p.device},
      {"devices", e.devices},
      {"total_bytes", e.memory.empty() ? 0 : e.memory.front()->capacity},
      {"capacity_bytes",
       e.memory.empty() ? 0 : e.memory.front()->capacity - e.memory.front()->outside},
      {"context_bytes", p.context_bytes},
      {"nccl_bytes", p.nccl_bytes},
      {"for_nccl_bytes", e.memory.empty() ? 0 : e.memory.front()->for_nccl},
      {"used_bytes", e.memory.empty() ? 0 : e.memory.front()->used_},
      {"allocations", e.memory.empty() ? 0 : e.memory.front()->all().size()},
      {"streams", e.streams.size()},
      {"events", live_events()},
      {"schedule", e.schedule_name()},
      {"data", e.data.load()},
      {"compute_capability", std::to_string(p.major) + "." + std::to_string(p.minor)},
      {"multiprocessors", p.multiprocessors},
      {"memory_gbps", p.memory_gbps},
      {"nvlink_gbps", p.links.nvlink_gbps},
      {"network_gbps", p.links.network_gbps},
      {"pcie_gbps", p.pcie_gbps},
      {"launch_ns", e.launch_cost()},
      {"now_ns", e.now},
      {"launches", e.launches},
      {"synchronisations", e.synchronisations},
  };
  const char* const kinds[] = {"f64", "f32", "tf32", "f16", "bf16", "f8", "i8"};
  for (std::size_t i = 0; i < 7; ++i) j["dense_tflops"][kinds[i]] = p.tflops[i];
  j["kernels"] = counts;
  return give_text(j.dump(), text, size);
}
