// Events of a process's record as a snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "harness/record/block_layout.h"
#include "harness/record/budget.h"
#include "harness/record/string_table.h"
#include "reports/snapshot/process_record.h"
#include "reports/snapshot/record_bytes.h"
#include "reports/snapshot/site.h"
#include "reports/snapshot/walk.h"

namespace tidemark {
namespace {

using recorder::Entries;
using recorder::kDevices;
using recorder::kFrames;
using recorder::kHeader;
using recorder::Tag;

/// Follows the entries of a record, and composes the snapshot at their end.
class EventReader {
 public:
  explicit EventReader(const RecordBytes& record)
      : entries_(record.entries()),
        begin_us_(record.header().begin_us),
        counts_(static_cast<std::int64_t>(record.header().moment().repeats)) {
    modules_[""];
    out_.labelled = true;
    if (record.header().has_events == recorder::kUntilFull)
      out_.failure = "the file system had no room for more";
  }

  std::string place() const { return fmt::format("byte {}", kHeader + entries_.place()); }

  Snapshot run() {
    const ReadingAt at(*this);
    while (entries_.more()) {
      const std::size_t place = entries_.place();
      try {
        entry();
      } catch (const std::runtime_error& error) {
        throw SnapshotError(fmt::format("byte {}: {}", kHeader + place, error.what()));
      }
    }
    if (counts_ > 0 && !out_.repeats.empty()) out_.repeats.back().count = counts_;
    std::erase_if(out_.repeats, [](const RepeatedSteps& one) { return one.count == 0; });
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      segments(device);
      place(skipped_, device, out_.skipped);
      place(left_steps_, device, out_.left_steps);
    }
    for (const auto& [name, open] : open_)
      for (const OpenPhase& one : open) end_phase(name, one);
    std::ranges::stable_sort(out_.phases, {}, [](const ProgramPhase& phase) {
      return std::pair(phase.device, phase.begin);
    });
    out_.modules = modules_.all();
    for (std::size_t device = 0; device < devices_.size(); ++device) tell_copies(device);
    return std::move(out_);
  }

 private:
  struct Device {
    BlockLayout layout;
    std::int64_t last = 0;  // address of the last allocation
    ProgramPhase::Moment moment;
  };
  struct OpenPhase {
    std::int64_t step = 0;
    std::vector<ProgramPhase::Moment> begins;  // by device
  };
  struct Node {
    std::string name;
    std::vector<std::uint32_t> forward;  // frames of the place that made it
    std::uint64_t module = 0;
  };

  template <class T>
  const T& known(const std::vector<T>& all, std::uint64_t number) const {
    if (number >= all.size()) throw SnapshotError("refers to a name that is not there");
    return all[number];
  }

  void entry() {
    switch (static_cast<Tag>(entries_.byte())) {
      case Tag::string:
        strings_.push_back(entries_.text());
        return;
      case Tag::frame: {
        const std::string &function = string(), &file = string();
        frames_.push_back(frame({function, file, entries_.bytes()}));
        return;
      }
      case Tag::stack:
        return stack();
      case Tag::node: {
        Node made{string(), {}, 0};
        const std::vector<std::uint32_t>& frames = known(stacks_, entries_.number());
        made.module = entries_.number();
        const std::uint64_t within = entries_.number();
        made.forward = within == 0 ? frames : below(frames, known(nodes_, within));
        if (made.module == 0) made.module = known(nodes_, within).module;
        nodes_.push_back(std::move(made));
        return;
      }
      case Tag::event:
        return event();
      case Tag::block: {
        Device& one = device();
        const Bytes bytes = entries_.bytes();
        if (const auto at = one.layout.blocks().find(one.last); at != one.layout.blocks().end())
          at->second.size = bytes;
        return;
      }
      case Tag::label:
        return label();
      case Tag::phase:
        return phase();
      case Tag::phase_end:
        return phase_end();
      case Tag::gather:
        return gather();
      case Tag::step:
        step_ = entries_.bytes();
        steps_.push_back(step_);
        time_ = begin_us_ + entries_.signed_number();
        address_ = 0;
        if (entries_.place() <= skipped_until_) left_steps_.push_back({{0, step_, {}}, moments()});
        return;
      case Tag::repeats: {
        const std::int64_t period = entries_.bytes();
        std::int64_t count = 0;
        std::memcpy(&count, entries_.take(sizeof count).data(), sizeof count);
        if (period < 1 || period > std::ssize(steps_))
          throw SnapshotError("repeats more steps than there are");
        out_.repeats.push_back({*(steps_.end() - period), steps_.back(), count});
        return;
      }
      case Tag::skipped:
        return skipped();
      case Tag::setting: {
        std::string name = entries_.text();
        std::string value = entries_.text();
        std::erase_if(out_.settings, [&](const auto& one) { return one.first == name; });
        out_.settings.emplace_back(std::move(name), std::move(value));
        return;
      }
    }
    throw SnapshotError("is not an entry");
  }

  void skipped() {
    SkippedSteps one;
    one.first = entries_.bytes(), one.last = entries_.bytes(), one.count = entries_.bytes();
    one.events = entries_.bytes();
    const std::uint64_t bytes = entries_.number();
    skipped_until_ = entries_.place() + bytes;
    skipped_.push_back({one, moments()});
  }

  std::vector<ProgramPhase::Moment> moments() const {
    std::vector<ProgramPhase::Moment> out;
    for (const Device& device : devices_) out.push_back(device.moment);
    return out;
  }

  /// Those of a device, each with its moment there.
  template <class T>
  static void place(const std::vector<std::pair<T, std::vector<ProgramPhase::Moment>>>& all,
                    std::size_t device, std::vector<T>& out) {
    for (auto [one, at] : all) {
      one.device = static_cast<std::int64_t>(device);
      one.at = device < at.size() ? at[device] : ProgramPhase::Moment{};
      out.push_back(one);
    }
  }

  const std::string& string() { return known(strings_, entries_.number()); }

  void stack() {
    const std::vector<std::uint32_t>& caller = known(stacks_, entries_.number());
    const std::uint64_t number = entries_.number();
    std::vector<std::uint32_t> frames{known(frames_, number == 0 ? frames_.size() : number)};
    frames.insert(frames.end(), caller.begin(),
                  caller.begin() + std::min<std::ptrdiff_t>(std::ssize(caller), kFrames - 1));
    stacks_.push_back(std::move(frames));
  }

  Device& device() { return device_at(entries_.number()); }
  Device& device_at(std::uint64_t number) {
    if (number >= kDevices) throw SnapshotError(fmt::format("device {}", number));
    if (number >= devices_.size()) {
      devices_.resize(number + 1);
      out_.traces.resize(number + 1);
    }
    return devices_[number];
  }

  std::int64_t address() { return address_ += entries_.signed_number(); }

  /// The stack of an event in the snapshot. An event of the backward begins with autograd's node;
  /// below it is what Python did in the node, then the place that made the node in the forward.
  /// What a node computes again by modules (checkpointing) is like in the forward, and what FSDP or
  /// an optimizer does in a hook is theirs.
  std::pair<std::uint32_t, std::uint64_t> place_of(std::uint64_t stack, std::uint64_t module,
                                                   std::uint64_t node) {
    const std::vector<std::uint32_t>& frames = known(stacks_, stack);
    if (node == 0) return {stack_number(0, frames), module};
    const Node& of = known(nodes_, node);
    std::vector<std::uint32_t> whole = below(frames, of);
    if (module != 0) return {stack_number(0, std::move(whole)), module};
    if (by_python(frames) && kind_of_library(out_, frames))
      return {stack_number(0, std::move(whole)), of.module};
    return {stack_number(node, std::move(whole)), of.module};
  }
  bool by_python(const std::vector<std::uint32_t>& frames) const {
    return !frames.empty() && !runs_backward(out_.frames[frames.front()]);
  }
  /// Frames of what runs in a node: those of Python in it, and those of the place that made it; if
  /// no forward did, of the call of the backward.
  std::vector<std::uint32_t> below(const std::vector<std::uint32_t>& frames,
                                   const Node& node) const {
    std::vector<std::uint32_t> all;
    if (by_python(frames) || node.forward.empty()) all = frames;
    all.insert(all.end(), node.forward.begin(), node.forward.end());
    return all;
  }
  static bool runs_backward(const StackFrame& frame) {
    return frame.file.ends_with("torch/autograd/graph.py") ||
           frame.file.ends_with("torch/autograd/__init__.py");
  }
  static std::string short_name(std::string_view node) {
    return std::string(node.substr(node.rfind(':') + 1));  // torch::autograd::AccumulateGrad
  }
  std::uint32_t stack_number(std::uint64_t node, std::vector<std::uint32_t> frames) {
    if (node != 0) {
      const std::string& name = nodes_[node].name;
      const auto [at, is_new] = node_frames_.try_emplace(name, 0);
      if (is_new) at->second = frame({short_name(name), "autograd", 0});
      frames.insert(frames.begin(), at->second);
    }
    if (frames.size() > kFrames) frames.resize(kFrames);
    const auto [stack, is_new] =
        numbers_.try_emplace(frames, static_cast<std::uint32_t>(out_.stacks.size()));
    if (is_new) out_.stacks.push_back(std::move(frames));
    return stack->second;
  }
  std::uint32_t frame(StackFrame one) { return add_frame(out_, std::move(one)); }

  void event() {
    const std::uint64_t code = entries_.number(), number = entries_.number();
    if (code >= words(AllocatorAction()).size()) throw SnapshotError("an event of no action");
    const auto action = static_cast<AllocatorAction>(code);
    Device& one = device_at(number);
    AllocatorEvent event;
    event.action = action;
    event.address = address();
    event.size = entries_.bytes();
    if (event.action == AllocatorAction::oom) event.address = entries_.bytes();
    event.stream = entries_.bytes();
    const std::uint64_t stack = entries_.number(), module = entries_.number();
    const auto [place, in] = place_of(stack, module, entries_.number());
    event.stack = place;
    event.module = modules_[known(strings_, in)];
    event.time = ns_of(time_ += entries_.signed_number());
    if (action == AllocatorAction::snapshot) return;  // nothing has changed
    one.layout.apply({event, recorder::rounded(event.size)});
    if (event.action == AllocatorAction::alloc) {
      one.last = event.address;
      ++one.moment.allocations;
    }
    if (event.action == AllocatorAction::free_completed) ++one.moment.frees;
    out_.traces[number].push_back(event);
  }

  void label() {
    const std::int64_t at = address();
    const std::string& kind = string();
    const std::string& name = string();
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const auto& blocks = devices_[i].layout.blocks();
      const auto after = blocks.upper_bound(at);
      if (after == blocks.begin()) continue;
      const auto& [begin, block] = *std::prev(after);
      if (at >= begin + std::max<Bytes>(block.size, 1)) continue;
      const auto number = static_cast<std::int64_t>(i);
      const std::int64_t allocations = devices_[i].moment.allocations;
      if (const auto memory = memory_kind(kind))
        out_.labels.push_back({number, allocations, at, *memory, name});
      else if (const auto holder = holder_kind(kind))
        out_.holders.push_back({number, allocations, at, *holder, name});
      else
        throw SnapshotError(unknown_kind(kind));
    }
  }

  void gather() {
    const std::int64_t output = address(), shard = address(), bytes = entries_.bytes();
    for (std::size_t i = 0; i < devices_.size(); ++i)
      if (devices_[i].layout.blocks().contains(output))
        out_.gathers.push_back(
            {static_cast<std::int64_t>(i), devices_[i].moment.allocations, output, shard, bytes});
  }

  void phase() {
    const std::string& name = string();
    time_ += entries_.signed_number();
    open_[name].push_back({step_, moments()});
  }

  void phase_end() {
    const std::string& name = string();
    time_ += entries_.signed_number();
    const auto open = open_.find(name);
    if (open == open_.end() || open->second.empty()) return;
    end_phase(name, open->second.back());
    open->second.pop_back();
  }

  /// On each device that had events in it; where the process has one device, there.
  void end_phase(const std::string& name, const OpenPhase& open) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const auto begin = i < open.begins.size() ? open.begins[i] : ProgramPhase::Moment{};
      const auto end = devices_[i].moment;
      if (begin == end && used() > 1) continue;
      if (out_.traces[i].empty()) continue;
      out_.phases.push_back({static_cast<std::int64_t>(i), begin, end, name, open.step});
    }
  }
  std::int64_t used() const {
    return std::ranges::count_if(out_.traces, [](const auto& trace) { return !trace.empty(); });
  }

  // Copies of weights, say, from operators that autograd notes: what is there before the first
  // forward and lives on into that of the next step is no activation.
  void tell_copies(std::size_t device) {
    const auto outside = std::ranges::find(out_.modules, recorder::kOutsideModules);
    const auto is_forward = [&](const ProgramPhase& one) {
      return one.device == static_cast<std::int64_t>(device) && one.name == "forward";
    };
    const auto first = std::ranges::find_if(out_.phases, is_forward), end = out_.phases.end();
    const auto next = std::find_if(first, end, [&](const ProgramPhase& one) {
      return is_forward(one) && one.step > first->step;
    });
    if (outside == out_.modules.end() || next == end || device >= out_.traces.size()) return;
    auto& trace = out_.traces[device];
    TraceWalk walk(trace);
    std::size_t before = 0;  // events until the first forward
    while (walk.moment() < next->begin && walk.next())
      if (walk.moment() <= first->begin) before = walk.place() + 1;
    for (const auto& [address, block] : walk.live())
      if (block < before && std::cmp_equal(trace[block].module, outside - out_.modules.begin()))
        trace[block].module = 0;
  }

  void segments(std::size_t number) {
    for (Segment& segment : devices_[number].layout.segments()) {
      segment.device = static_cast<std::int64_t>(number);
      out_.segments.push_back(std::move(segment));
    }
  }

  Entries entries_;
  std::int64_t begin_us_, counts_, time_ = begin_us_, step_ = 1, address_ = 0;
  std::vector<std::pair<SkippedSteps, std::vector<ProgramPhase::Moment>>> skipped_;  // by device
  std::vector<std::pair<LeftStep, std::vector<ProgramPhase::Moment>>> left_steps_;   // likewise
  std::size_t skipped_until_ = 0;
  std::vector<std::int64_t> steps_;  // and repetitions, by their step
  Snapshot out_;
  // By their numbers in the record.
  std::vector<std::string> strings_{""};
  std::vector<std::uint32_t> frames_{0};
  std::vector<std::vector<std::uint32_t>> stacks_{{}};
  std::vector<Node> nodes_{{}};
  std::vector<Device> devices_;
  std::map<std::string, std::vector<OpenPhase>> open_;
  StringTable modules_;
  std::map<std::string, std::uint32_t> node_frames_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_{{{}, 0}};
};

}  // namespace

Snapshot record_snapshot(const std::filesystem::path& path) {
  const auto record = read_record(path, true);
  if (!record) throw SnapshotError(path.string() + ": its process had not begun the record");
  try {
    return EventReader(*record).run();
  } catch (const SnapshotError& error) {
    throw SnapshotError(path.string() + ": " + error.what());
  }
}

}  // namespace tidemark
