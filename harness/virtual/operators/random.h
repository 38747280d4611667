// Randomness of `math`: the CUDA generator's seed and offset before an operator decide the CPU
// generator that computes its numbers; the CUDA generator itself is advanced by the operator's own
// host code. So a seed gives the same numbers in every run, and an operator that replays a mask
// from a saved (seed, offset) finds the same mask.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace tidemark::operators {

struct RandomState {
  std::uint64_t seed = 0, offset = 0;
};

/// The state that an operator in a CUDA graph has at each launch: PyTorch writes the generator's
/// seed and offset to device memory then.
struct CapturedRandom {
  const std::int64_t *seed = nullptr, *offset = nullptr;
  std::uint64_t in_graph = 0;  // beyond the offset

  RandomState state() const {
    return {static_cast<std::uint64_t>(*seed), static_cast<std::uint64_t>(*offset) + in_graph};
  }
};
CapturedRandom captured_random(const c10::IValue& value, c10::DeviceIndex device);

/// State of the CUDA generator in `value`, or of this device's default generator.
RandomState random_state(const c10::IValue& value, c10::DeviceIndex device);
at::Generator cpu_generator(RandomState state);

}  // namespace tidemark::operators
