#include "reference/memory/placement.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace tidemark::reference {
namespace {

constexpr std::int64_t kChunk = 32 << 20, kHandle = 10 << 20;

}  // namespace

Placement placement_named(std::string_view name) {
  if (name.empty() || name == "linux") return Placement::of_linux;
  if (name == "ascending") return Placement::ascending;
  int first = 198, second = 240;
  char rest = 0;
  if (name == "wsl2" ||
      (std::sscanf(std::string(name).c_str(), "wsl2:%4d,%4d%c", &first, &second, &rest) == 2 &&
       first > 0 && second > 0 && first % 2 == 0 && second % 2 == 0))
    return {Placement::of_wsl2, std::max(std::int64_t{0}, (std::int64_t{first} << 20) - kHandle)};
  throw std::invalid_argument("TIDEMARK_PLACEMENT=" + std::string(name) +
                              ": expected linux, wsl2, wsl2:FIRST,SECOND (even MiB) or ascending");
}

std::int64_t Addresses::next(std::int64_t bytes) {
  if (placement_.rule == Placement::of_linux) return next_downwards(bytes);
  if (placement_.rule == Placement::of_wsl2 && low_ + bytes <= placement_.low) {
    low_ += bytes;
    return low_ - bytes - placement_.low;
  }
  highest_ += bytes;
  return highest_ - bytes;
}

std::int64_t Addresses::next_downwards(std::int64_t bytes) {
  for (auto rest = rests_.rbegin(); rest != rests_.rend(); ++rest) {
    if (rest->bytes < bytes) continue;
    const std::int64_t begin = rest->begin;
    rest->begin += bytes;
    rest->bytes -= bytes;
    if (rest->bytes == 0) rests_.erase(std::next(rest).base());
    return begin;
  }
  const std::int64_t chunk = (bytes + kChunk - 1) / kChunk * kChunk;
  lowest_ -= chunk;
  if (chunk > bytes) rests_.push_back({lowest_ + bytes, chunk - bytes});
  return lowest_;
}

}  // namespace tidemark::reference
