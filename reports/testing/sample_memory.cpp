#include <fmt/format.h>

#include <limits>

#include "harness/memory/testing/made_record.h"
#include "harness/record/gzip.h"
#include "reports/testing/sample_parts.h"

namespace tidemark {
namespace {

constexpr int kUnits = 8;
constexpr Ns kGather = 300, kCompute = 200, kLaunch = 40;
constexpr std::int64_t kBase = std::int64_t{1} << 45, kGap = std::int64_t{1} << 32;

// Address of a unit's buffer: four in each segment; if frees do not wait, all in the first place.
std::int64_t address_of(int unit, Bytes bytes, bool pending) {
  return pending ? kBase + unit / 4 * kGap + unit % 4 * bytes : kBase;
}

class Heap {
 public:
  Heap(RankRecord& rank, Bytes unit, bool pending) : rank_(rank), unit_(unit), pending_(pending) {
    record_.stream(1, "stream 1");
    record_.step(1);
    record_.phase("forward", 0);
    rank_.spans.streams = {"host", "default stream", "stream 1"};
    rank_.spans.names = {"ncclDevKernel_AllGather", "aten::mm", "wait for an event", "synchronise"};
  }

  void run() {
    for (int i = 0; i < kUnits; ++i) unit(i);
    const Ns device = 2 * kGather + kUnits * kCompute + kUnits * kGather;
    span(0, 3, SpanKind::wait, now_, now_, device);
    now_ = device;
    for (int i = 0; pending_ && i < kUnits; ++i)
      event(AllocatorAction::free_completed, address_of(i, unit_, pending_), unit_ - 12);
    record_.phase_end("forward", now_);
    rank_.memory = packed_bytes(record_.bytes());
    AliveBlock block{unit_,         unit_ - 12,      MemoryKind::gathered_parameters,
                     "aten::empty", {unit_ / 4 - 3}, "Float",
                     "stream 1"};
    rank_.largest = {block};
    block.category = MemoryKind::sharding_buffers;
    block.pending = true;
    if (pending_) rank_.largest.insert(rank_.largest.end(), kUnits - 1, block);
  }

 private:
  void unit(int i) {
    const std::int64_t address = address_of(i, unit_, pending_);
    if (i == 0 || (pending_ && i == 4)) event(AllocatorAction::segment_alloc, address, 4 * unit_);
    event(AllocatorAction::alloc, address, unit_ - 12);
    const Ns gather = std::max(now_, gathered_);
    gathered_ = gather + kGather;
    span(2, 0, SpanKind::collective, now_, gather, gathered_);
    now_ += kLaunch;
    if (gathered_ > computed_) span(1, 2, SpanKind::wait, now_, computed_, gathered_);
    const Ns compute = std::max(gathered_, computed_);
    computed_ = compute + kCompute;
    span(1, 1, SpanKind::op, now_, compute, computed_);
    now_ += kLaunch;
    event(AllocatorAction::free_requested, address, unit_ - 12);
    if (!pending_) event(AllocatorAction::free_completed, address, unit_ - 12);
  }

  void event(AllocatorAction action, std::int64_t address, Bytes bytes) {
    const bool made = action == AllocatorAction::alloc;
    record_.event(action, address, bytes, now_, 1, made ? "aten::empty" : "");
    if (made) record_.label(address, MemoryKind::gathered_parameters);
  }

  void span(std::uint32_t stream, std::uint32_t name, SpanKind kind, Ns enqueued, Ns begin,
            Ns end) {
    rank_.spans.all.push_back({stream, name, kind, enqueued, begin, end});
  }

  RankRecord& rank_;
  MadeRecord record_;
  Bytes unit_;
  bool pending_;
  Ns now_ = 0, gathered_ = 0, computed_ = 0;
};

}  // namespace

void add_memory(RankRecord& rank, Bytes unit, bool pending) { Heap(rank, unit, pending).run(); }

void add_race(RankRecord& rank) {
  std::int64_t gather = -1, compute = -1;
  for (std::size_t i = 0; i < rank.spans.all.size(); ++i) {
    if (rank.spans.all[i].kind == SpanKind::collective) gather = static_cast<std::int64_t>(i);
    if (rank.spans.all[i].kind == SpanKind::op) compute = static_cast<std::int64_t>(i);
  }
  rank.races = {{{"ncclDevKernel_AllGather", "stream 1", gather},
                 {"aten::mm", "default stream", compute},
                 4096,
                 "aten::mm (default stream, forward) reads 4096 bytes that "
                 "ncclDevKernel_AllGather (stream 1, forward) writes; no stream order, event or "
                 "host synchronisation puts one after the other"}};
}

std::vector<GradientError> sample_gradients(Role role, bool wrong) {
  std::vector<GradientError> out;
  for (int i = 0; i < 4; ++i) {
    GradientError row{
        fmt::format("layers.{}.weight", i), {64, std::int64_t{16} * (i + 1)}, {}, {}, -1};
    if (role != Role::baseline) row.baseline.emplace();
    row.reference = Distance{3.0 + i, 1e-6 * (4 - i), 2.5e-7 * (1 + i % 3)};
    if (wrong && i > 0) {
      row.first = std::int64_t{7} * i;
      row.baseline = Distance{1000.0 / i, 0.125 * i, 0.01 * i};
      row.reference = Distance{1000.0 / i + 3, 0.125 * i, 0.01 * i};
    }
    if (wrong && i == 3) row.baseline->ulps = std::numeric_limits<double>::infinity();
    out.push_back(row);
  }
  return out;
}

}  // namespace tidemark
