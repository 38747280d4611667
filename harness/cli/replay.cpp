// tidemark snapshot replay: a recording replayed in PyTorch's own caching allocator. The segments
// from before its trace are built, then its allocations and frees are made again, on the virtual
// device, with every segment at its recorded address. A freed block is given back where the
// recording says that its free was completed. Takes the device for itself.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "harness/cli/files.h"
#include "harness/cli/replay_before.h"
#include "harness/cli/replayed_allocator.h"
#include "harness/device/platform.h"
#include "harness/memory/rewind.h"
#include "harness/print.h"
#include "harness/record/budget.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

bool gives_back(AllocatorAction a) {
  return a == AllocatorAction::segment_free || a == AllocatorAction::segment_unmap;
}
bool takes(AllocatorAction a) {
  return a == AllocatorAction::segment_alloc || a == AllocatorAction::segment_map;
}

SegmentEvent as_recorded(const AllocatorEvent& e) {
  return {e.action, e.address, e.size, e.stream};
}

class Replay {
 public:
  Replay(const Snapshot& snapshot, std::size_t device)
      : snapshot_(snapshot),
        device_(device),
        settings_(allocator_settings(snapshot)),
        trace_(snapshot.traces[device]),
        before_(memory_before(snapshot, device)),
        allocator_(before_.segments, trace_) {}

  void run() {
    live_ = build(allocator_, before_, trace_);
    allocator_.use(settings_.text);
    while (at_ < trace_.size() && wrong_.empty()) at_ = step(at_);
    if (allocations_ == 0)
      throw SnapshotError("has a trace without allocations: nothing to replay");
    if (wrong_.empty()) compare_the_end();
  }
  int exit_code() const { return wrong_.empty() ? 0 : 1; }
  std::string text(const std::string& file) const {
    const std::string segments =
        !wrong_.empty() ? "different: " + wrong_
        : segment_events_ == 0
            ? "none came or went, as recorded"
            : fmt::format("all {} as recorded", plural(segment_events_, "segment event"));
    return fmt::format(
        "{}: {} on {}, from {} to {}\nblocks: {} of {} allocations at the recorded address\n"
        "segments: {}\n",
        file, plural(std::ssize(trace_), "event"),
        plural(static_cast<std::int64_t>(allocator_.streams()), "stream"),
        plural(std::ssize(before_.segments), "segment"), allocator_.segments().size(),
        same_address_, allocations_, segments);
  }

 private:
  /// Plays an event, or all of the segments that go together; returns the next one.
  std::size_t step(std::size_t i) {
    const AllocatorEvent& e = trace_[i];
    if (gives_back(e.action)) return give_back(i);
    if (takes(e.action)) {
      pending_.push_back(i);
    } else if (e.action == AllocatorAction::alloc) {
      allocate(e);
    } else if (e.action == AllocatorAction::free_completed) {
      const auto block = live_.find(e.address);
      if (block == live_.end())
        throw SnapshotError(fmt::format("event {} frees a block that is not allocated", i));
      allocator_.give(block->second);
      live_.erase(block);
    } else if (e.action == AllocatorAction::oom) {
      require_no_pending();
    }
    return i + 1;
  }

  void allocate(const AllocatorEvent& e) {
    // Another thread's events may lie between a segment and the allocation that made it.
    std::vector<SegmentEvent> expected;
    std::erase_if(pending_, [&](std::size_t i) {
      const AllocatorEvent& one = trace_[i];
      const bool mine = one.stream == e.stream &&
                        one.address < e.address + std::max<std::int64_t>(e.size, 1) &&
                        e.address < one.address + one.size;
      if (mine) expected.push_back(as_recorded(one));
      return mine;
    });
    if (!expected.empty()) allocator_.place(expected[0].address.value());
    const Home& home = before_.homes.at(at_);
    void* block = allocator_.take({e.size, e.stream, home.pool, home.expandable});
    live_[e.address] = block;
    ++allocations_;
    same_address_ += allocator_.recorded(block) == e.address;
    compare(expected, allocator_.made());
  }

  std::size_t give_back(std::size_t i) {
    require_no_pending();
    std::vector<SegmentEvent> expected;
    for (; i < trace_.size() && gives_back(trace_[i].action); ++i) {
      expected.push_back(as_recorded(trace_[i]));
      if (before_.homes.at(i).pool != PoolId{})
        throw SnapshotError(
            fmt::format("event {} gives back memory of a private pool, which is not replayed", i));
    }
    allocator_.release();
    // Streams and pools go in the order of host pointers.
    auto made = allocator_.made();
    std::ranges::sort(expected);
    std::ranges::sort(made);
    if (expected != made && std::ranges::includes(made, expected))
      throw SnapshotError(fmt::format(
          "gives back a part of its free segments from event {} on, as when a private pool ends or "
          "blocks are freed by age, which is not replayed",
          at_));
    compare(expected, made);
    return i;
  }

  /// Notes the first difference between recorded and made segment events.
  void compare(const std::vector<SegmentEvent>& expected, const std::vector<SegmentEvent>& made) {
    segment_events_ += std::ssize(expected);
    if (expected == made) return;
    const auto [a, b] = std::ranges::mismatch(expected, made);
    const auto text = [](auto event, auto end) { return event == end ? "none" : event->text(); };
    const std::string difference = fmt::format("event {}: recorded {}, here {}", at_,
                                               text(a, expected.end()), text(b, made.end()));
    // A size follows from the allocation alone. Whether there is a segment depends on what was
    // free.
    const bool other_size =
        a != expected.end() && b != made.end() && takes(a->action) && a->size != b->size;
    const std::string why = other_size ? "" : doubt();
    if (!why.empty())
      throw SnapshotError(fmt::format("is not compared any further: {}: {}", difference, why));
    wrong_ = difference;
  }

  /// Why a difference proves nothing, or empty.
  std::string doubt() const {
    if (before_.unsure > 0)
      return fmt::format("{} from before the trace may have been longer than requested",
                         plural(static_cast<std::int64_t>(before_.unsure), "block"));
    if (settings_.collects)
      return "garbage_collection_threshold was set, which frees blocks by age";
    std::set<bool> kinds;
    for (const auto& [event, home] : before_.homes) kinds.insert(home.expandable);
    for (const Segment& segment : before_.segments) kinds.insert(segment.expandable);
    if (kinds.size() > 1) return "expandable_segments was changed while it was recorded";
    // A segment whose pool nothing records is one that is given back later.
    const bool unknown = std::any_of(before_.homes.lower_bound(at_), before_.homes.end(),
                                     [](const auto& each) { return !each.second.known; });
    const bool pools =
        std::ranges::any_of(snapshot_.segments, [](const auto& s) { return s.pool != PoolId{}; });
    return unknown || pools ? "a segment that came and went may have been of a private pool" : "";
  }

  void require_no_pending() const {
    if (!pending_.empty())
      throw SnapshotError(
          fmt::format("event {} is a {} for an allocation that failed, which is not replayed",
                      pending_.front(), name_of(trace_[pending_.front()].action)));
  }

  void compare_the_end() {
    require_no_pending();
    const auto here = allocator_.segments();
    std::map<std::int64_t, std::int64_t> recorded;
    for (const Segment& segment : snapshot_.segments)
      if (static_cast<std::size_t>(segment.device) == device_)
        recorded[segment.address] = segment.total_size;
    if (here != recorded)
      wrong_ = fmt::format("the segments at the end are not as recorded: {} recorded, {} here",
                           recorded.size(), here.size());
  }

  const Snapshot& snapshot_;
  const std::size_t device_;
  const AllocatorSettings settings_;
  const std::vector<AllocatorEvent>& trace_;
  const MemoryBefore before_;
  ReplayedAllocator allocator_;
  std::vector<std::size_t> pending_;  // segments that still wait for their allocation
  LiveBlocks live_;
  std::size_t at_ = 0, allocations_ = 0, same_address_ = 0;
  std::int64_t segment_events_ = 0;
  std::string wrong_;  // the first segment event, or end, that is not as recorded
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
      end_budget();  // PyTorch's allocator takes its time
      if (virtual_device() == nullptr)
        throw std::runtime_error(
            "snapshot replay: needs the virtual device, and this process has NVIDIA's libraries");
      try {
        Replay replay(snapshot, traced_device(snapshot, *device));
        replay.run();
        print(stdout, "{}", replay.text(*file));
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
