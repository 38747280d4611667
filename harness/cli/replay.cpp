// tidemark snapshot replay: a recording replayed in PyTorch's own caching allocator. The segments
// from before its trace are built, then its allocations and frees are made again, on the virtual
// device, with every segment at its recorded address. A freed block is given back where the
// recording says that its free was completed. Takes the device for itself.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "harness/cli/files.h"
#include "harness/device/platform.h"
#include "reports/snapshot/rewind.h"
#include "reports/snapshot/snapshot.h"
#include "reports/units.h"

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
constexpr std::int64_t kMiB = 1 << 20, kMostStreams = 32;

struct SegmentEvent {
  Action action;
  std::int64_t size;
  std::size_t stream;
  bool operator==(const SegmentEvent&) const = default;
  std::string text() const {
    return fmt::format("{} of {} bytes, stream {}", name_of(action), size, stream);
  }
};

std::vector<SegmentEvent>* made = nullptr;  // where the tracker writes
std::map<cudaStream_t, std::size_t>* stream_turns = nullptr;

void track(const allocator::TraceEntry& entry) {
  using Entry = allocator::TraceEntry;
  if (made == nullptr ||
      (entry.action_ != Entry::SEGMENT_ALLOC && entry.action_ != Entry::SEGMENT_FREE))
    return;
  made->push_back(
      {entry.action_ == Entry::SEGMENT_ALLOC ? Action::segment_alloc : Action::segment_free,
       static_cast<std::int64_t>(entry.size_),
       stream_turns->at(static_cast<cudaStream_t>(entry.stream_))});
}

class Replay {
 public:
  explicit Replay(const Snapshot& snapshot)
      : snapshot_(snapshot), trace_(only_trace(snapshot)), before_(segments_before(snapshot)) {
    lowest_ = INT64_MAX;
    for (const auto& segment : before_) meet(segment.address, segment.stream);
    for (const TraceEvent& e : trace_) {
      if (e.action == Action::segment_alloc) meet(e.address, e.stream);
      if (e.action == Action::oom)
        throw SnapshotError("ran out of memory while it was recorded, which is not replayed");
    }
    if (std::ssize(streams_) > kMostStreams)
      throw SnapshotError(
          fmt::format("has {} streams; at most {} are replayed", streams_.size(), kMostStreams));
    c10::cuda::device_count_ensure_non_zero();
    allocator::init(1);
    platform().begin("instant", Mode::shapes);
    set_capacity(std::int64_t{1} << 42);
    for (auto& [id, stream] : streams_) {
      stream.cuda = stream.turn == 0 ? c10::cuda::getDefaultCUDAStream().stream()
                                     : c10::cuda::getStreamFromPool(false).stream();
      turns_[stream.cuda] = stream.turn;
    }
    made = &made_, stream_turns = &turns_;
    allocator::attachAllocatorTraceTracker(track);
  }
  ~Replay() { made = nullptr, stream_turns = nullptr; }

  void run() {
    build();
    made_.clear();
    for (at_ = 0; at_ < trace_.size() && wrong_.empty(); ++at_) step(trace_[at_]);
    if (wrong_.empty()) expect();
    compare_segments();
  }
  int exit_code() const { return wrong_.empty() ? 0 : 1; }
  std::string text(const std::string& file) const {
    std::string out = fmt::format("{}: {} on {}, from {} to {}\n", file,
                                  plural(trace_.size(), "event"), plural(streams_.size(), "stream"),
                                  plural(before_.size(), "segment"), segments_after_);
    out += fmt::format("blocks: {} of {} allocations at the recorded address\n", same_address_,
                       allocations_);
    if (!wrong_.empty()) return out + fmt::format("segments: different: {}\n", wrong_);
    if (expected_.empty()) return out + "segments: none came or went, as recorded\n";
    return out +
           fmt::format("segments: all {} as recorded\n", plural(expected_.size(), "segment event"));
  }

 private:
  struct Stream {
    std::size_t turn;
    cudaStream_t cuda = nullptr;
  };

  void meet(std::int64_t address, std::int64_t stream) {
    lowest_ = std::min(lowest_, address);
    streams_.try_emplace(stream, Stream{streams_.size()});
  }
  void* take(std::int64_t bytes, std::int64_t stream) {
    const auto found = streams_.find(stream);
    if (found == streams_.end())
      throw SnapshotError(fmt::format("allocates on stream {}, which has no segment", stream));
    return allocator::raw_alloc_with_stream(static_cast<std::size_t>(bytes), found->second.cuda);
  }
  std::int64_t recorded(void* pointer) const {
    return reinterpret_cast<std::intptr_t>(pointer) - base_ + lowest_;
  }
  void place(std::int64_t address) {
    if (!virtual_device()->place_next(address - lowest_))
      throw SnapshotError(
          fmt::format("has a segment at an address that cannot be had ({})", address));
  }

  // Every segment as one or two blocks, so that none has room; then one after the other is freed
  // and divided.
  void build() {
    std::vector<std::vector<void*>> whole;
    for (const SnapshotSegment& segment : before_) {
      const bool small = segment.type == "small";
      const bool usual =
          small ? segment.total_size == 2 * kMiB
                : segment.total_size >= 10 * kMiB && segment.total_size % (2 * kMiB) == 0;
      if (!usual)
        throw SnapshotError(fmt::format(
            "has a {} segment of {} bytes, which PyTorch's default settings do not make",
            segment.type, segment.total_size));
      place(segment.address);
      auto& blocks = whole.emplace_back();
      blocks.push_back(take(small ? kMiB : segment.total_size, segment.stream));
      if (base_ == 0)
        base_ = reinterpret_cast<std::intptr_t>(blocks[0]) - (segment.address - lowest_);
      if (small) blocks.push_back(take(kMiB, segment.stream));
    }
    std::vector<void*> free;
    for (std::size_t i = 0; i < before_.size(); ++i) {
      for (void* block : whole[i]) allocator::raw_delete(block);
      for (const SnapshotBlock& block : before_[i].blocks) {
        const bool is_free = block.state == BlockState::inactive;
        // Free memory of a small segment comes in blocks that the pool of small ones gives.
        const std::int64_t most = is_free && before_[i].type == "small" ? kMiB : block.size;
        for (std::int64_t at = 0; at < block.size; at += most) {
          void* pointer = take(std::min(most, block.size - at), before_[i].stream);
          if (recorded(pointer) != block.address + at)
            throw SnapshotError(fmt::format(
                "has a block of {} bytes at address {} before its trace that cannot be built",
                block.size, block.address));
          if (is_free)
            free.push_back(pointer);
          else
            live_[block.address] = pointer;
        }
      }
    }
    for (void* block : free) allocator::raw_delete(block);
  }

  void step(const TraceEvent& e) {
    switch (e.action) {
      case Action::segment_alloc:
        expected_.push_back({e.action, e.size, streams_.at(e.stream).turn});
        place(e.address);
        return;
      case Action::segment_free:
        if (made_.size() == expected_.size()) allocator::emptyCache();  // the first of several
        expected_.push_back({e.action, e.size, streams_.at(e.stream).turn});
        return;
      case Action::alloc: {
        void* pointer = take(e.size, e.stream);
        live_[e.address] = pointer;
        ++allocations_;
        same_address_ += recorded(pointer) == e.address;
        return expect();
      }
      case Action::free_completed: {
        const auto found = live_.find(e.address);
        if (found == live_.end())
          throw SnapshotError(fmt::format("event {} frees a block that is not allocated", at_));
        allocator::raw_delete(found->second);
        live_.erase(found);
        return;
      }
      default:
        return;
    }
  }

  /// All that was recorded up to an allocation has been made, and nothing else.
  void expect() {
    for (; checked_ < std::max(made_.size(), expected_.size()); ++checked_) {
      const auto text = [&](const std::vector<SegmentEvent>& events) {
        return checked_ < events.size() ? events[checked_].text() : std::string("none");
      };
      if (checked_ < made_.size() && checked_ < expected_.size() &&
          made_[checked_] == expected_[checked_])
        continue;
      wrong_ = fmt::format("event {}: segment event {}: recorded {}, here {}", at_, checked_,
                           text(expected_), text(made_));
      return;
    }
  }

  void compare_segments() {
    std::map<std::int64_t, std::int64_t> here, there;
    for (const auto& segment : allocator::snapshot().segments)
      here[static_cast<std::int64_t>(segment.address) - base_ + lowest_] =
          static_cast<std::int64_t>(segment.total_size);
    for (const SnapshotSegment& segment : snapshot_.segments)
      there[segment.address] = segment.total_size;
    segments_after_ = here.size();
    if (wrong_.empty() && here != there)
      wrong_ = fmt::format("the segments at the end are not as recorded: {} recorded, {} here",
                           there.size(), here.size());
  }

  const Snapshot& snapshot_;
  const std::vector<TraceEvent>& trace_;
  const std::vector<SnapshotSegment> before_;
  std::map<std::int64_t, Stream> streams_;
  std::map<cudaStream_t, std::size_t> turns_;
  std::vector<SegmentEvent> made_, expected_;
  std::size_t checked_ = 0, at_ = 0;
  std::int64_t lowest_ = 0, base_ = 0;
  std::unordered_map<std::int64_t, void*> live_;  // by recorded address
  std::size_t allocations_ = 0, same_address_ = 0, segments_after_ = 0;
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
  command
      ->add_option("file", *file,
                   "a snapshot with a trace (torch.cuda.memory._record_memory_history), or a "
                   "recording of reports/measured")
      ->required();
  command->footer(
      "exit codes: 0 the segments are as recorded, 1 they are not, 2 usage or bad input");
  command->callback([file, &act] {
    act = [file] {
      const Snapshot snapshot = read_snapshot(*file);
      if (virtual_device() == nullptr)
        throw std::runtime_error(
            "snapshot replay: needs the virtual device, and this process has NVIDIA's libraries");
      try {
        Replay replay(snapshot);
        replay.run();
        fmt::print("{}", replay.text(*file));
        return replay.exit_code();
      } catch (const SnapshotError& error) {
        throw SnapshotError(*file + ": " + error.what());
      }
    };
  });
}

}  // namespace tidemark
