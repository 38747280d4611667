// tidemark snapshot replay: a recording replayed in PyTorch's own caching allocator. The segments
// from before its trace are built, then its allocations and frees are made again, on the virtual
// device, with every segment at its recorded address. A freed block is given back where the
// recording says that its free was completed. Takes the device for itself.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/cli/files.h"
#include "harness/cli/replay_before.h"
#include "harness/cli/replayed_allocator.h"
#include "harness/device/platform.h"
#include "reports/snapshot/rewind.h"
#include "reports/units.h"

namespace tidemark {
namespace {

bool gives_back(Action a) { return a == Action::segment_free || a == Action::segment_unmap; }
bool takes(Action a) { return a == Action::segment_alloc || a == Action::segment_map; }

SegmentEvent as_recorded(const TraceEvent& e) { return {e.action, e.address, e.size, e.stream}; }

std::set<std::int64_t> streams_of(const MemoryBefore& before,
                                  const std::vector<TraceEvent>& trace) {
  std::set<std::int64_t> out;
  for (const auto& segment : before.segments) out.insert(segment.stream);
  for (const TraceEvent& e : trace)
    if (of_block(e.action) || takes(e.action)) out.insert(e.stream);
  return out;
}

ReplayedAllocator::Ranges ranges_of(const MemoryBefore& before,
                                    const std::vector<TraceEvent>& trace) {
  ReplayedAllocator::Ranges out;
  for (const auto& s : before.segments) out.emplace_back(s.address, s.address + s.total_size);
  for (const TraceEvent& e : trace)
    if (takes(e.action)) out.emplace_back(e.address, e.address + e.size);
  return out;
}

class Replay {
 public:
  Replay(const Snapshot& snapshot, std::size_t device)
      : snapshot_(snapshot),
        device_(device),
        settings_(allocator_settings(snapshot)),
        trace_(snapshot.traces[device]),
        before_(memory_before(snapshot, device)),
        allocator_(streams_of(before_, trace_), ranges_of(before_, trace_)) {
    for (const SnapshotSegment& s : before_.segments)
      homes_[s.address] = {s.address + s.total_size, s.pool,
                           before_.without_pool.contains(s.address)};
    for (const SnapshotSegment& s : snapshot.segments) has_pools_ |= s.pool != PoolId{};
    learn_kinds();
  }

  void run() {
    live_ = build(allocator_, before_, trace_);
    allocator_.use(settings_.text);
    while (at_ < trace_.size() && wrong_.empty()) at_ = step(at_);
    if (allocations_ == 0)
      throw SnapshotError("has a trace without allocations: nothing to replay");
    const auto here = allocator_.segments();
    segments_after_ = here.size();
    if (wrong_.empty()) finish(here);
  }
  int exit_code() const { return wrong_.empty() ? 0 : 1; }
  std::string text(const std::string& file) const {
    std::string out =
        fmt::format("{}: {} on {}, from {} to {}\n", file, plural(std::ssize(trace_), "event"),
                    plural(static_cast<std::int64_t>(allocator_.streams()), "stream"),
                    plural(std::ssize(before_.segments), "segment"), segments_after_);
    out += fmt::format("blocks: {} of {} allocations at the recorded address\n", same_address_,
                       allocations_);
    if (!wrong_.empty()) return out + fmt::format("segments: different: {}\n", wrong_);
    if (segment_events_ == 0) return out + "segments: none came or went, as recorded\n";
    if (partly_ > 0)
      out += fmt::format(
          "releases: {} of a part of what was free, as of a private pool or of old blocks\n",
          partly_);
    return out +
           fmt::format("segments: all {} as recorded\n", plural(segment_events_, "segment event"));
  }

 private:
  struct Home {  // a segment as recorded, or mapped memory
    std::int64_t end;
    PoolId pool;
    bool guessed;  // the recording does not name its pool, and it counts as PyTorch's own
  };

  /// Plays an event, or all of the segments that go together; returns the next one.
  std::size_t step(std::size_t i) {
    const TraceEvent& e = trace_[i];
    if (gives_back(e.action)) return give_back(i);
    if (takes(e.action)) {
      leave(e.address, e.address + e.size);
      homes_[e.address] = {e.address + e.size, pool_of_segment(i), !before_.pools.contains(i)};
      pending_.push_back(i);
    } else if (e.action == Action::alloc) {
      allocate(e);
    } else if (e.action == Action::free_completed) {
      const auto found = live_.find(e.address);
      if (found == live_.end())
        throw SnapshotError(fmt::format("event {} frees a block that is not allocated", i));
      allocator_.give(found->second);
      live_.erase(found);
    } else if (e.action == Action::oom) {
      no_pending();
    }
    return i + 1;
  }

  PoolId pool_of_segment(std::size_t event) const {
    const auto found = before_.pools.find(event);
    return found == before_.pools.end() ? PoolId{} : found->second;
  }

  /// Nothing is left of what was there.
  void leave(std::int64_t begin, std::int64_t end) {
    auto at = homes_.upper_bound(begin);
    if (at != homes_.begin()) --at;
    while (at != homes_.end() && at->first < end) {
      const auto [from, old] = *at;
      if (old.end <= begin) {
        ++at;
        continue;
      }
      at = homes_.erase(at);
      if (from < begin) homes_[from] = {begin, old.pool, old.guessed};
      if (old.end > end) homes_[end] = old;
    }
  }

  void allocate(const TraceEvent& e) {
    const auto after = homes_.upper_bound(e.address);
    if (after == homes_.begin() || e.address >= std::prev(after)->second.end)
      throw SnapshotError(fmt::format("event {} allocates a block in no segment", at_));
    const PoolId pool = std::prev(after)->second.pool;
    // Another thread's events may lie between a segment and the allocation that made it.
    std::vector<SegmentEvent> expected;
    std::erase_if(pending_, [&](std::size_t i) {
      const TraceEvent& one = trace_[i];
      const bool mine = one.stream == e.stream &&
                        one.address < e.address + std::max(e.size, kLeast) &&
                        e.address < one.address + one.size;
      if (!mine) return false;
      expected.push_back(as_recorded(one));
      return true;
    });
    bool& expandable = expandable_.try_emplace(pool, first_kind(pool)).first->second;
    if (!expected.empty()) {
      expandable = expected[0].action == Action::segment_map;
      allocator_.place(*expected[0].address);
    }
    void* block = allocator_.take({e.size, e.stream, pool, expandable});
    live_[e.address] = block;
    ++allocations_;
    same_address_ += allocator_.recorded(block) == e.address;
    compare(expected, allocator_.made());
  }

  std::size_t give_back(std::size_t i) {
    no_pending();
    std::vector<SegmentEvent> expected;
    std::set<PoolId> pools;
    for (; i < trace_.size() && gives_back(trace_[i].action); ++i) {
      expected.push_back(as_recorded(trace_[i]));
      const auto after = homes_.upper_bound(trace_[i].address);
      if (after != homes_.begin()) pools.insert(std::prev(after)->second.pool);
    }
    std::set<std::int64_t> addresses;
    for (const SegmentEvent& e : expected) addresses.insert(*e.address);
    for (const PoolId pool : pools)
      if (pool != PoolId{}) allocator_.release(pool);
    if (pools.contains(PoolId{}) && allocator_.release(addresses) > 0) ++partly_;
    // Streams and pools go in the order of host pointers.
    auto made = allocator_.made();
    std::ranges::sort(expected);
    std::ranges::sort(made);
    compare(expected, made);
    for (const SegmentEvent& e : expected) leave(*e.address, *e.address + e.size);
    return i;
  }

  /// What was recorded has been made, and nothing else.
  void compare(const std::vector<SegmentEvent>& expected, const std::vector<SegmentEvent>& made) {
    segment_events_ += std::ssize(expected);
    if (expected == made) return;
    const auto [a, b] = std::ranges::mismatch(expected, made);
    const bool first_is_here = a == expected.end() || (b != made.end() && *b < *a);
    const bool both = a != expected.end() && b != made.end() && takes(a->action);
    const auto text = [](const SegmentEvent& e, const SegmentEvent* other) {
      const bool place = other != nullptr && other->text() == e.text();
      return e.text() + (place && e.address ? fmt::format(", at {}", *e.address) : "");
    };
    const std::string recorded = a != expected.end() && (both || !first_is_here)
                                     ? text(*a, both ? &*b : nullptr)
                                     : "none",
                      here = b != made.end() && (both || first_is_here)
                                 ? text(*b, both ? &*a : nullptr)
                                 : "none";
    wrong_ = fmt::format("event {}: recorded {}, here {}", at_, recorded, here);
    // A size follows from the allocation alone. Whether there is a segment depends on what was
    // free.
    if (both && a->size != b->size) return;
    if (const std::string why = doubt(); !why.empty())
      throw SnapshotError(fmt::format("is not compared from event {} on (recorded {}, here {}): {}",
                                      at_, recorded, here, why));
  }

  /// Why a difference proves nothing, or empty.
  std::string doubt() const {
    if (before_.unsure > 0)
      return fmt::format("{} from before the trace may have been longer than requested",
                         plural(static_cast<std::int64_t>(before_.unsure), "block"));
    if (settings_.collects)
      return "garbage_collection_threshold was set, which frees blocks by age";
    if (changes_kind_) return "expandable_segments was changed while it was recorded";
    const bool guessed =
        std::ranges::any_of(homes_, [](const auto& each) { return each.second.guessed; });
    if (has_pools_ || guessed)
      return "a segment that came and went may have been of a private pool";
    return "";
  }

  void no_pending() const {
    if (!pending_.empty())
      throw SnapshotError(
          fmt::format("event {} is a {} for an allocation that failed, which is not replayed",
                      pending_.front(), name_of(trace_[pending_.front()].action)));
  }

  /// Whether a pool makes expandable segments before its first segment event of the trace.
  bool first_kind(PoolId pool) const {
    const auto found = first_kind_.find(pool);
    return found == first_kind_.end() ? settings_.expandable : found->second;
  }
  void learn_kinds() {
    std::set<bool> kinds;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      if (!takes(trace_[i].action)) continue;
      const bool expandable = trace_[i].action == Action::segment_map;
      first_kind_.try_emplace(pool_of_segment(i), expandable);
      kinds.insert(expandable);
    }
    for (const SnapshotSegment& s : before_.segments) kinds.insert(s.expandable);
    changes_kind_ = kinds.size() > 1;
  }

  void finish(const std::map<std::int64_t, std::int64_t>& here) {
    no_pending();
    std::map<std::int64_t, std::int64_t> there;
    for (const SnapshotSegment& segment : snapshot_.segments)
      if (static_cast<std::size_t>(segment.device) == device_)
        there[segment.address] = segment.total_size;
    if (here != there)
      wrong_ = fmt::format("the segments at the end are not as recorded: {} recorded, {} here",
                           there.size(), here.size());
  }

  static constexpr std::int64_t kLeast = 1;
  const Snapshot& snapshot_;
  const std::size_t device_;
  const AllocatorSettings settings_;
  const std::vector<TraceEvent>& trace_;
  const MemoryBefore before_;
  ReplayedAllocator allocator_;
  bool has_pools_ = false, changes_kind_ = false;
  std::map<PoolId, bool> expandable_, first_kind_;
  std::map<std::int64_t, Home> homes_;
  std::vector<std::size_t> pending_;  // segments that still wait for their allocation
  LiveBlocks live_;
  std::size_t at_ = 0, allocations_ = 0, same_address_ = 0, segments_after_ = 0;
  std::int64_t segment_events_ = 0;
  std::size_t partly_ = 0;  // releases that left free segments
  // The first segment event, or segment at the end, that is not as recorded.
  std::string wrong_;
};

}  // namespace

void add_snapshot_replay(CLI::App& app, Act& act) {
  auto* command =
      app.get_subcommand("snapshot")
          ->add_subcommand("replay",
                           "repeat the allocations and frees of a recording in PyTorch's allocator "
                           "on the virtual device, and compare the segments");
  auto file = std::make_shared<std::string>();
  auto device = std::make_shared<std::optional<std::size_t>>();
  command
      ->add_option("file", *file,
                   "a snapshot with a trace (torch.cuda.memory._record_memory_history), or a "
                   "recording of reports/measured")
      ->required();
  command->add_option("--device", *device, "the device, where several have a trace");
  command->footer(
      "exit codes: 0 the segments are as recorded, 1 they are not, 2 usage, bad input, or a "
      "recording that cannot be compared");
  command->callback([file, device, &act] {
    act = [file, device] {
      const Snapshot snapshot = read_snapshot(*file);
      if (virtual_device() == nullptr)
        throw std::runtime_error(
            "snapshot replay: needs the virtual device, and this process has NVIDIA's libraries");
      try {
        Replay replay(snapshot, traced_device(snapshot, *device));
        replay.run();
        fmt::print("{}", replay.text(*file));
        return replay.exit_code();
      } catch (const SnapshotError& error) {
        throw SnapshotError(*file + ": " + error.what());
      } catch (const c10::Error& error) {
        throw SnapshotError(*file +
                            ": cannot be replayed: " + one_line(error.what_without_backtrace()));
      }
    };
  });
}

}  // namespace tidemark
