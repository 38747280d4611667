#include "harness/virtual/device/placement.h"

#include <algorithm>
#include <utility>

namespace tidemark::device {

std::unique_ptr<Placement> make_placement(std::string_view name, Span span) {
  if (name == "linux") return std::make_unique<LinuxPlacement>(span);
  if (name == "wsl2") return std::make_unique<Wsl2Placement>(span);
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

void Wsl2Placement::library_loaded() {
  if (low_) free_.give(low_, kLow);
  low_ = 0;
}

}  // namespace tidemark::device
