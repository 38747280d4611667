#include "harness/virtual/device/profile.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "harness/virtual/device/nesting.h"
#include "harness/virtual/device/text.h"

namespace tidemark::device {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path folder() {
  if (const char* set = std::getenv("TIDEMARK_PROFILES")) return set;
  Dl_info self = {};
  dladdr(reinterpret_cast<const void*>(&load_profile), &self);
  return fs::path(self.dli_fname ? self.dli_fname : ".").parent_path() / "profiles";
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder())) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string choices() {
  std::string text;
  for (const auto& name : all_names()) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none in " + folder().string() : text;
}

/// " (did you mean h100-80g?)" where a name begins with `text`.
std::string meant(const std::string& text) {
  if (text.empty()) return "";
  for (const auto& name : all_names())
    if (name.starts_with(text)) return " (did you mean " + name + "?)";
  return "";
}

const json& part(const json& of, const char* key) {
  if (!of.is_object() || !of.contains(key)) throw std::runtime_error(std::string("has no ") + key);
  return of[key];
}

std::string text(const json& of, const char* key) {
  const json& value = part(of, key);
  if (!value.is_string()) throw std::runtime_error(std::string(key) + " must be a text");
  return value.get<std::string>();
}

// Figures are {"value": x, "source": "..."}: the source is for people. The bounds are far from any
// GPU's: within them sums and quotients of figures are times and sizes that an integer holds.
double number(const json& group, const char* key) {
  const json& of = part(group, key);
  const bool there = of.is_object() && of.contains("value") && of["value"].is_number();
  if (!there) throw std::runtime_error(std::string(key) + " must have a value that is a number");
  return of["value"].get<double>();
}

double figure(const json& group, const char* key) {
  const double value = number(group, key);
  if (value != 0 && !(value >= 1e-6 && value <= 1e15)) {
    throw std::runtime_error(std::string(key) + " must be 0 or a number from 1e-6 to 1e15");
  }
  return value;
}

int whole(const json& group, const char* key) {
  const double value = number(group, key);
  if (!(std::abs(value) <= 2e9) || value != std::floor(value)) {
    throw std::runtime_error(std::string(key) + " must be a whole number of at most 2e9");
  }
  return static_cast<int>(value);
}
Ns nanoseconds(const json& group, const char* key) { return static_cast<Ns>(figure(group, key)); }

// FNV-1a: the same on every host.
std::uint32_t hash_of(const std::string& text) {
  std::uint32_t hash = 2166136261;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return hash;
}

Profile parse(const json& j) {
  Profile p;
  p.figures = hash_of(j.dump(-1, ' ', false, json::error_handler_t::replace));
  p.name = text(j, "name");
  p.device = text(j, "device");
  const json& memory = part(j, "memory");
  p.memory_bytes = static_cast<std::size_t>(figure(memory, "bytes"));
  if (j.contains("torch")) {
    p.context_bytes = static_cast<std::int64_t>(figure(j["torch"], "context_bytes"));
    p.nccl_bytes = static_cast<std::int64_t>(figure(j["torch"], "nccl_bytes"));
    p.torch_bytes = static_cast<std::int64_t>(figure(j["torch"], "total_bytes"));
    if (p.torch_bytes > static_cast<std::int64_t>(p.memory_bytes) ||
        p.context_bytes + p.nccl_bytes >= p.torch_bytes)
      throw std::runtime_error(
          "torch: total_bytes must be at most memory.bytes, and above context_bytes and nccl_bytes "
          "together");
  }
  p.memory_gbps = figure(memory, "gbps");
  p.memory_clock_khz = whole(memory, "clock_khz");
  p.memory_bus_bits = whole(memory, "bus_bits");

  const json& rates = part(j, "dense_tflops");
  const char* const kinds[] = {"f64", "f32", "tf32", "f16", "bf16", "f8", "i8"};
  for (std::size_t i = 0; i < std::size(kinds); ++i) p.tflops[i] = figure(rates, kinds[i]);
  p.tflops[static_cast<std::size_t>(Number::other)] =
      p.tflops[static_cast<std::size_t>(Number::f32)];

  const json& links = part(j, "links");
  p.links = {figure(links, "nvlink_gbps"), figure(links, "network_gbps"),
             nanoseconds(links, "nvlink_latency_ns"), nanoseconds(links, "network_latency_ns"),
             whole(links, "ranks_per_node")};
  if (links.contains("peer_access")) p.peer_access = figure(links, "peer_access") != 0;
  p.pcie_gbps = figure(links, "pcie_gbps");
  p.pcie_latency = nanoseconds(links, "pcie_latency_ns");

  const json& host = part(j, "host");
  p.launch = nanoseconds(host, "launch_ns");
  p.kernel_latency = nanoseconds(host, "kernel_latency_ns");
  p.poll = nanoseconds(host, "poll_ns");
  p.synchronise = nanoseconds(host, "synchronise_ns");
  p.allocate = nanoseconds(host, "allocate_ns");
  p.release = nanoseconds(host, "release_ns");

  const json& chip = part(j, "chip");
  p.major = whole(chip, "compute_major");
  p.minor = whole(chip, "compute_minor");
  p.multiprocessors = whole(chip, "multiprocessors");
  p.clock_khz = whole(chip, "clock_khz");
  p.l2_bytes = whole(chip, "l2_bytes");
  p.persisting_l2_bytes = whole(chip, "persisting_l2_bytes");
  p.shared_per_multiprocessor = whole(chip, "shared_per_multiprocessor");
  p.shared_per_block = whole(chip, "shared_per_block");
  p.shared_per_block_optin = whole(chip, "shared_per_block_optin");
  p.shared_reserved = whole(chip, "shared_reserved");
  p.threads_per_multiprocessor = whole(chip, "threads_per_multiprocessor");
  p.blocks_per_multiprocessor = whole(chip, "blocks_per_multiprocessor");
  p.registers_per_multiprocessor = whole(chip, "registers_per_multiprocessor");
  p.async_engines = whole(chip, "async_engines");
  p.lowest_priority = whole(chip, "lowest_priority");
  p.highest_priority = whole(chip, "highest_priority");
  if (p.memory_gbps <= 0 || p.pcie_gbps <= 0 || p.memory_bytes == 0 || p.multiprocessors <= 0) {
    throw std::runtime_error("memory, its bandwidth, PCIe and multiprocessors must be above 0");
  }
  return p;
}

}  // namespace

Ns Profile::transfer(double bytes, double gbps) const {
  return gbps > 0 ? static_cast<Ns>(std::llround(bytes / gbps)) : 0;  // GB/s = bytes/ns
}

Ns Profile::duration(const Cost& cost) const {
  const double arithmetic = cost.flops > 0 ? cost.flops / std::max(rate(cost.number), 1e-3) : 0;
  return kernel_latency +
         static_cast<Ns>(std::llround(std::max(arithmetic, cost.bytes / memory_gbps)));
}

Profile load_profile(const std::string& name_or_path) {
  const bool is_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  const fs::path path = is_path ? fs::path(name_or_path) : folder() / (name_or_path + ".json");
  const std::optional<std::string> text = text_of_file(path.c_str());
  if (!text)
    throw std::runtime_error("no GPU profile '" + name_or_path + "'" + meant(name_or_path) +
                             "; there are: " + choices());
  try {
    if (is_too_deep(*text)) throw std::runtime_error(kTooDeep);
    const json figures = json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (figures.is_discarded()) throw std::runtime_error("is not JSON");
    Profile profile = parse(figures);
    profile.file = path;
    return profile;
  } catch (const std::runtime_error& e) {
    throw std::runtime_error("GPU profile " + path.string() + ": " + e.what());
  }
}

}  // namespace tidemark::device
