// A GPU as data: what a JSON file of profiles/ says. Every figure carries its source there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/virtual/device/device.h"

namespace tidemark::device {

struct Profile {
  std::string name;  // "h100-80g"
  std::string file;
  std::uint32_t figures = 0;  // a hash of what the file says
  std::string device;         // what cudaGetDeviceProperties calls it
  int major = 0, minor = 0;
  int multiprocessors = 0;

  std::size_t memory_bytes = 0;
  // Memory outside PyTorch's allocator: the most that is known of such GPUs; 0: not known.
  std::int64_t context_bytes = 0, nccl_bytes = 0;
  std::int64_t torch_bytes = 0;  // the total that PyTorch prints, at least; 0: not known
  /// Bytes that PyTorch's allocator cannot have in a program without NCCL.
  std::size_t outside() const {
    return torch_bytes == 0 ? 0
                            : memory_bytes - static_cast<std::size_t>(torch_bytes - context_bytes);
  }
  double memory_gbps = 0;             // GB/s, read + write together
  std::array<double, 8> tflops = {};  // dense, by Number
  Links links = {};
  bool peer_access = true;
  double pcie_gbps = 0;  // one direction
  Ns pcie_latency = 0;

  Ns launch = 0;                 // host time of one launch
  Ns kernel_latency = 0;         // shortest time a kernel occupies its stream
  Ns poll = 0;                   // host time of one query
  Ns synchronise = 0;            // host time of one synchronisation, waiting excluded
  Ns allocate = 0, release = 0;  // host time of cudaMalloc and cudaFree

  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  int l2_bytes = 0, persisting_l2_bytes = 0;
  int shared_per_multiprocessor = 0, shared_per_block = 0, shared_per_block_optin = 0,
      shared_reserved = 0;
  int threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0,
      registers_per_multiprocessor = 0;
  int async_engines = 0;
  int lowest_priority = 0, highest_priority = 0;  // stream priorities: 0 and a negative number

  double rate(Number n) const { return tflops[static_cast<std::size_t>(n)] * 1e3; }  // flop/ns
  /// Roofline, latency included.
  Ns duration(const Cost& cost) const;
  Ns transfer(double bytes, double gbps) const;
};

/// By name, from TIDEMARK_PROFILES or the folder profiles/ beside this library; or a path that
/// holds a '/' or ends in .json. Throws std::runtime_error saying what is wrong and which profiles
/// there are.
Profile load_profile(const std::string& name_or_path);

}  // namespace tidemark::device
