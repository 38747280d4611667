// GPUs of `tidemark fit`: profiles with the memory that PyTorch can use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/fit.h"

namespace tidemark {

struct Gpu {
  FitGpu memory;
  std::string chip;  // GPUs with the same text run a program with the same allocations
};

/// `name` is a profile or a file. `reserve`, if given, takes the place of context and NCCL, and
/// `capacity` that of what the profile leaves for PyTorch. Throws UsageError if there is no such
/// profile, or if nothing is left of it.
Gpu find_gpu(const std::string& name, const std::optional<Bytes>& reserve,
             const std::optional<Bytes>& capacity);

/// Reads a price an hour of each GPU from a file with lines "GPU PRICE"; "#" begins a comment.
/// Throws UsageError.
void read_prices(const std::string& file, std::vector<Gpu>& gpus);

}  // namespace tidemark
