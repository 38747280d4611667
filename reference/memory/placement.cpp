#include "reference/memory/placement.h"

#include <stdexcept>
#include <string>

namespace tidemark::reference {
namespace {

constexpr std::int64_t kChunk = 32 << 20, kLow = 188 << 20;

}  // namespace

Placement placement_named(std::string_view name) {
  if (name.empty() || name == "linux") return Placement::of_linux;
  if (name == "wsl2") return Placement::of_wsl2;
  if (name == "ascending") return Placement::ascending;
  throw std::invalid_argument("TIDEMARK_PLACEMENT=" + std::string(name) +
                              ": expected linux, wsl2 or ascending");
}

std::int64_t Addresses::next(std::int64_t bytes) {
  if (placement_ == Placement::of_linux) return next_downwards(bytes);
  if (placement_ == Placement::of_wsl2 && low_ + bytes <= kLow) {
    low_ += bytes;
    return low_ - bytes - kLow;
  }
  highest_ += bytes;
  return highest_ - bytes;
}

std::int64_t Addresses::next_downwards(std::int64_t bytes) {
  for (auto rest = rests_.rbegin(); rest != rests_.rend(); ++rest) {
    if (rest->bytes < bytes) continue;
    rest->begin += bytes;
    rest->bytes -= bytes;
    return rest->begin - bytes;
  }
  const std::int64_t chunk = (bytes + kChunk - 1) / kChunk * kChunk;
  lowest_ -= chunk;
  rests_.push_back({lowest_ + bytes, chunk - bytes});
  return lowest_;
}

}  // namespace tidemark::reference
