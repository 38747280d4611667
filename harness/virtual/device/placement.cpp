#include "harness/virtual/device/placement.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace tidemark::device {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::optional<Wsl2Placement::Held> wsl2_held(std::string_view name) {
  if (name == "wsl2") return Wsl2Placement::Held{198 * kMiB, 240 * kMiB};
  unsigned first = 0, second = 0;
  char rest = 0;
  if (std::sscanf(std::string(name).c_str(), "wsl2:%4u,%4u%c", &first, &second, &rest) != 2 ||
      first % 2 != 0 || second % 2 != 0 || first == 0 || second == 0)
    return {};
  return Wsl2Placement::Held{first * kMiB, second * kMiB};
}

}  // namespace

std::unique_ptr<Placement> make_placement(std::string_view name, Span span) {
  if (name == "linux") return std::make_unique<LinuxPlacement>(span);
  if (const auto driver_bytes = wsl2_held(name);
      driver_bytes && driver_bytes->first + driver_bytes->second < span.bytes)
    return std::make_unique<Wsl2Placement>(span, *driver_bytes);
  if (name == "ascending") return std::make_unique<AscendingPlacement>(span);
  return nullptr;
}

LinuxPlacement::LinuxPlacement(Span span) {
  const std::uintptr_t begin = round_up(span.begin, kChunk);
  const std::uintptr_t end = (span.begin + span.bytes) / kChunk * kChunk;
  if (end > begin) holes_.give(begin, end - begin);
}

std::uintptr_t LinuxPlacement::take(std::size_t bytes) {
  for (Chunk& chunk : chunks_) {
    const std::uintptr_t at = chunk.gaps.take_smallest(bytes);
    if (at == 0) continue;
    chunk.used += bytes;
    return at;
  }
  const std::size_t size = round_up(bytes, kChunk);
  std::uintptr_t begin = holes_.take_highest(size, size + kChunk);
  if (begin == 0) begin = holes_.take_highest(size, size);  // the range is nearly full
  if (begin == 0) return 0;
  chunks_.push_front({begin, size, bytes, {}});
  if (size > bytes) chunks_.front().gaps.give(begin + bytes, size - bytes);
  return begin;
}

void LinuxPlacement::give(std::uintptr_t begin, std::size_t bytes) {
  const auto chunk =
      std::ranges::find_if(chunks_, [&](const Chunk& c) { return begin - c.begin < c.bytes; });
  chunk->gaps.give(begin, bytes);
  chunk->used -= bytes;
  if (chunk->used > 0) return;
  holes_.give(chunk->begin, chunk->bytes);
  chunks_.erase(chunk);
}

std::uintptr_t DictatedPlacement::take(std::size_t bytes) {
  const std::uintptr_t at = std::exchange(next, 0);
  return at && free_.take_at(at, bytes) ? at : free_.take_highest(bytes, bytes);
}

Wsl2Placement::Wsl2Placement(Span span, Held driver_bytes)
    : AscendingPlacement({span.begin + driver_bytes.first, span.bytes - driver_bytes.first}),
      first_{span.begin, driver_bytes.first},
      second_(driver_bytes.second) {}

void Wsl2Placement::launched(std::string_view kernel) {
  if (resized_) return;
  if (!std::exchange(any_kernel_, true)) hold(2 * kMiB);
  if (kernel.find("distribution_elementwise_grid_stride_kernel") != kernel.npos) return;
  resized_ = true;
  hold(second_);
  free_.give(first_.begin, first_.bytes);
}

void Wsl2Placement::used(Library what) {
  if (what == Library::handle) {
    if (!std::exchange(any_handle_, true)) hold(2 * kMiB);
    hold(8 * kMiB);
  } else if (!std::exchange(any_product_, true)) {
    hold(6 * kMiB);
  }
}

}  // namespace tidemark::device
