#include "reference/memory/replay.h"

#include <algorithm>
#include <cmath>

namespace tidemark::reference {
namespace {

constexpr std::int64_t kThreads = 128, kBlock = kThreads * 16;  // of a copying block, and its bytes

std::int64_t blocks(const std::vector<std::int64_t>& chunks, std::int64_t bytes) {
  std::int64_t all = 0;
  for (const auto chunk : chunks) all += divided(chunk, bytes);
  return all;
}

}  // namespace

void Replay::begin(const std::string& phase) {
  end();
  phase_ = phase;
  memory_.at(phase);
  memory_.reset_peaks();
}

void Replay::end() {
  if (phase_.empty()) return;
  auto& levels = predicted_.phases[phase_];
  const std::array figures{&memory_.allocated, &memory_.active, &memory_.reserved,
                           &memory_.requested};
  for (std::size_t i = 0; i < figures.size(); ++i)
    levels[i] = {figures[i]->peak, figures[i]->current};
  predicted_.accounts[phase_] = {memory_.at_peaks(), memory_.allocated_now(), memory_.active_now()};
  phase_.clear();
}

std::int64_t copy_out_table(const std::vector<std::int64_t>& chunks, std::int64_t ranks,
                            const DeviceFacts& device) {
  const auto most = device.processors * device.threads_per_processor / kThreads * 2;
  const auto rounds = divided(blocks(chunks, kBlock) * ranks, most);
  const auto chunks_a_block =
      std::min(static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(rounds)))), ranks);
  const auto rounds_a_chunk = divided(rounds, chunks_a_block);
  return 8 * (4 * std::ssize(chunks) + 1 + blocks(chunks, kBlock * rounds_a_chunk));
}

std::int64_t copy_in_table(const std::vector<std::int64_t>& chunks) {
  return 8 * (6 * std::ssize(chunks) + 2 + blocks(chunks, kBlock));
}

}  // namespace tidemark::reference
