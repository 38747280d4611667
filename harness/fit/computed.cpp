#include "harness/fit/computed.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/units.h"

namespace tidemark {
namespace {

constexpr Bytes kChunks = 8;
constexpr std::int64_t kUsualRanks = 8;  // of a machine

AdviceRow row(std::string change, Bytes saved, std::string why, const char* values) {
  AdviceRow out;
  out.change = std::move(change);
  out.how = "computed", out.outcome = "saves";
  out.values = values;
  out.allocated_saved = saved;
  out.why = std::move(why);
  return out;
}

bool is_state(const AlivePart& part) {
  return part.kind == MemoryKind::parameters || part.kind == MemoryKind::gradients ||
         part.kind == MemoryKind::optimizer_state;
}

/// An element of 4 bytes becomes 1, with a scale of 4 bytes for each block of 256 elements.
void add_small_states(std::vector<AdviceRow>& rows, const FitRun& run) {
  const Bytes saved = run.states * 3 - run.states / 64;
  if (saved > 0)
    rows.push_back(row(
        "optimizer states of 8 bits", saved,
        fmt::format("{} elements of 32 bits, with a scale for each 256 of them", exact(run.states)),
        "of less precision"));
}

/// Bytes of a part in blocks with as many elements as the logits, of 2 or 4 bytes. Up to three
/// smaller blocks may stand at the same line.
Bytes of_logits(const AlivePart& part, Bytes logits) {
  for (const Bytes block : {4 * logits, 2 * logits}) {
    const Bytes blocks = part.bytes / block;
    if (blocks > 0 && part.count - blocks <= 3 && part.bytes - blocks * block < block / 64)
      return blocks * block;
  }
  return 0;
}

void add_chunked_loss(std::vector<AdviceRow>& rows, const FitRun& run) {
  Bytes logits_bytes = 0;
  if (run.logits > 0)
    for (const AlivePart& part : run.alive->parts)
      if (!is_state(part)) logits_bytes += of_logits(part, run.logits);
  if (logits_bytes > 0)
    rows.push_back(row(fmt::format("loss in {} chunks", kChunks),
                       logits_bytes / kChunks * (kChunks - 1),
                       fmt::format("{} are blocks of {} elements, as the logits",
                                   bytes_text(logits_bytes), exact(run.logits)),
                       "the same, in another order"));
}

void add_ranks(std::vector<AdviceRow>& rows, const FitRun& run) {
  Bytes state_bytes = 0;
  for (const AlivePart& part : run.alive->parts) state_bytes += is_state(part) ? part.bytes : 0;
  if (state_bytes == 0) return;
  const std::int64_t from = std::max<std::int64_t>(run.shards, 1);
  const std::int64_t to = run.shards > 1 ? 2 * from : kUsualRanks;
  const std::string change = run.shards > 1
                                 ? fmt::format("FSDP over {} ranks, which are {}", to, from)
                                 : fmt::format("FSDP over {} ranks", to);
  std::string why = "parameters, gradients and optimizer states are " + bytes_text(state_bytes);
  if (run.shards <= 1) why += "; the parameters that are gathered for a while are not counted";
  rows.push_back(
      row(change, state_bytes - state_bytes * from / to, why, "the same, in another order"));
}

}  // namespace

std::vector<AdviceRow> computed_rows(const FitRun& run) {
  std::vector<AdviceRow> rows;
  add_small_states(rows, run);
  if (run.alive) {
    add_chunked_loss(rows, run);
    add_ranks(rows, run);
  }
  return rows;
}

}  // namespace tidemark
