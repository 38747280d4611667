// Which libraries lie below PyTorch: the virtual platform's or NVIDIA's.
#pragma once

#include <stdexcept>
#include <string>

#include "harness/cuda_facts.h"

namespace tidemark {

/// Why the device that was asked for cannot be had.
struct Unavailable : std::runtime_error {
  explicit Unavailable(const Refusal& refusal)
      : std::runtime_error(refusal.why), code(refusal.code) {}
  int code;
};

/// `auto`, `virtual` or `cuda`: makes sure that the libraries below PyTorch are those, by starting
/// this program again (argv) with another search path where they are not. Returns only where they
/// are, with a line for the user, or an empty one: why `auto` has taken the virtual platform.
/// Throws UsageError for another word, Unavailable for a device that cannot be had.
std::string choose_device(const std::string& device, char** argv);

}  // namespace tidemark
