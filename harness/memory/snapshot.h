// PyTorch's memory snapshot (torch.cuda.memory._dump_snapshot), of tidemark or of any program: what
// the caching allocator held at one moment, and the trace of the events before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/memory/error.h"
#include "harness/memory/format/format.h"
#include "harness/record/growing_text.h"
#include "harness/record/rank.h"

namespace tidemark {

/// The action with PyTorch's word for it.
std::optional<AllocatorAction> action_named(std::string_view word);
/// Of the word of a kind that a file of a newer version has, a refusal.
std::string unknown_kind(std::string_view word);

/// A tensor that `tidemark exec --report` knew by name, at one moment of the trace.
struct TensorLabel {
  std::int64_t device = 0;
  std::int64_t allocations = 0;  // of the device until then
  std::int64_t address = 0;
  MemoryKind kind = MemoryKind::other;
  std::string name;  // "layers.0.w"
};

/// What holds a block that a step has left behind: an object of the program, a cycle of references,
/// which Python's collector frees, or a work of a process group, of which PyTorch's watchdog lets
/// go. What held one before an optimizer's step may not hold it for longer.
enum class HolderKind { object, cycle, work, before_step };
/// The words of records and snapshots.
constexpr auto words(HolderKind) {
  return std::array{"holder", "cycle of references", "work of a process group",
                    "holder before a step"};
}
std::optional<HolderKind> holder_kind(std::string_view word);
struct HolderLabel {
  std::int64_t device = 0, allocations = 0, address = 0;  // as of a TensorLabel
  HolderKind kind = HolderKind::object;
  std::string name;  // "`total` in main (train.py:9)"
};

/// What is known of the use of a block (format/format.h): that uses are followed from here on, or
/// of the block that is alive at the address after so many allocations.
using recorder::BlockUse;
std::optional<BlockUse> block_use(std::string_view word);
struct UseLabel {
  std::int64_t device = 0, allocations = 0, address = 0;  // as of a TensorLabel
  BlockUse use = BlockUse::followed;
};

/// A stretch of a device's trace, as `tidemark exec --report` noted it: "forward", "backward",
/// "optimizer", or a range of the program's own. It begins and ends after so many allocations and
/// completed frees of the device.
struct ProgramPhase {
  struct Moment {
    std::int64_t allocations = 0, frees = 0;
    auto operator<=>(const Moment&) const = default;
  };
  std::int64_t device = 0;
  Moment begin, end;
  std::string name;
  std::int64_t step = 0;  // of the training, from 1
};

/// A range that the program has named, as PyTorch notes it beside a trace (annotations.h).
struct NamedRange {
  std::int64_t device = 0;
  Ns from = 0, to = 0;  // by the clock of the trace's events
  std::string name;
};

/// An all-gather into one tensor, as `tidemark exec --report` noted it.
struct Gather {
  std::int64_t device = 0;
  std::int64_t allocations = 0;        // of the device until then
  std::int64_t output = 0, shard = 0;  // addresses
  std::int64_t shard_bytes = 0;
};

/// A block that an operator outside modules has allocated, as `tidemark exec --report` noted it:
/// where it has read one that was made in a forward, or computed so. Or one that it has written
/// outside modules and PyTorch's optimizers, having read a gradient or what is computed from one;
/// if both are the same block, it has overwritten what was in there.
struct Computed {
  std::int64_t device = 0;
  std::int64_t allocations = 0;          // of the device until then
  std::int64_t address = 0, source = 0;  // of the block, and in the one that was read
};

/// Steps that came again `count` times, one after the other: their events are in the trace once.
struct RepeatedSteps {
  std::int64_t first = 0, last = 0, count = 0;
};

/// Steps of which the trace has only what is left of them: `events` events are not kept. `at`: the
/// moment of the device from which on they lie.
struct SkippedSteps {
  std::int64_t device = 0, first = 0, last = 0, count = 0, events = 0;
  ProgramPhase::Moment at;
};

/// Begin of a step of which something is left, among those that are not kept.
struct LeftStep {
  std::int64_t device = 0, step = 0;
  ProgramPhase::Moment at;
};

/// A line of a file that frames name, without the blanks around it.
struct SourceLine {
  std::string file;
  std::int64_t line = 0;
  std::string text;
};

/// A segment of a private pool, by the event of the device's trace that took it.
struct PooledSegment {
  std::int64_t device = 0;
  std::size_t event = 0;
  PoolId pool{};
};

/// An allocation that failed, as a record has it: what the trace's event of it does not say. The
/// bytes are those of whole blocks, as PyTorch's own message counts them.
struct RefusedRequest {
  std::int64_t device = 0;
  std::size_t event = 0;  // of the device's trace
  Bytes asked = 0;        // of the device, by the allocator
  Bytes limit = 0;        // of the process; 0: it has none of its own
  Bytes allocated = 0, active = 0, reserved = 0;
  Bytes outside = 0;            // of the allocator
  Bytes in_pools = 0;           // free, and of private pools
  std::optional<Bytes> usable;  // free, and of the pool of the request
};

/// A recorded step begins on a device after so many events of its trace.
struct StepBegin {
  std::int64_t device = 0, step = 0;
  std::size_t event = 0;
};

/// A history, with what programs add to it.
struct Snapshot : MemoryHistory {
  std::vector<std::pair<std::string, std::string>> settings;  // the allocator's, as text
  std::vector<std::string> modules{""};
  bool labelled = false;  // `tidemark exec` wrote it, and would have written labels and modules
  std::vector<TensorLabel> labels;   // in the order of `allocations`
  std::vector<HolderLabel> holders;  // likewise
  std::vector<UseLabel> uses;        // likewise
  std::vector<ProgramPhase> phases;
  std::vector<NamedRange> annotations;  // by `from`
  std::vector<AllocatorEvent> host;     // the trace of pinned memory of the host, in stacks of this
  bool kinds_by_stacks = false;         // labels and phases are those of stack_phases.h; then:
  bool steps_by_backward = false;       // no optimizer was seen: a backward ends a step
  std::vector<Gather> gathers;          // in the order of `allocations`
  std::vector<Computed> computed;       // likewise
  std::vector<RepeatedSteps> repeats;
  std::vector<SkippedSteps> skipped;  // by device in the order of the trace
  std::vector<LeftStep> left_steps;   // likewise
  std::vector<StepBegin> steps;       // as recorded
  std::vector<PooledSegment> pooled;  // of a record
  std::vector<RefusedRequest> refused;
  std::vector<SourceLine> sources;  // where a record has them
  std::vector<std::string> torch;   // folders of PyTorch's Python package that frames show
  std::string failure;              // why the record ends before its process; empty: it does not
};

/// A pickle or JSON, or a record. Blocks must lie in their segments end to end. Throws
/// SnapshotError in one line that begins with `where`.
Snapshot parse_snapshot(std::string_view bytes, const std::string& where);
Snapshot read_snapshot(const std::filesystem::path& path);

/// The snapshot as a pickle that PyTorch's own readers and viewers load: protocol 2, 3 or 4, lists
/// in batches of at most 1,000, addresses as LONG1.
void write_pickle(const Snapshot& snapshot, const Put& put, int protocol = 4);
void write_json(const Snapshot& snapshot, const Put& put);
/// Chrome's trace format, which Perfetto opens: allocated, active and reserved as counters, every
/// allocation as a slice of its size with its site.
void write_perfetto(const Snapshot& snapshot, const Put& put);
/// The same as one text.
std::string pickle(const Snapshot& snapshot, int protocol = 4);
std::string snapshot_json(const Snapshot& snapshot);
std::string perfetto(const Snapshot& snapshot);

}  // namespace tidemark
