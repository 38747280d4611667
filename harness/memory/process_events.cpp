// Events of a process's record as a snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "harness/memory/block_layout.h"
#include "harness/memory/copies.h"
#include "harness/memory/process_record.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/requests.h"
#include "harness/memory/site.h"
#include "harness/record/budget.h"
#include "harness/record/string_table.h"

namespace tidemark {
namespace {

using recorder::Entry;
using recorder::kDevices;
using recorder::kFrames;
using recorder::kHeader;
using recorder::Tag;

/// Follows the entries of a record, and composes the snapshot at their end.
class EventReader {
 public:
  explicit EventReader(const RecordBytes& record)
      : reader_(record.entries()),
        begin_ns_(record.header().begin_ns),
        counts_(static_cast<std::int64_t>(record.header().moment().repeats)) {
    modules_[""];
    out_.labelled = true;
    if (record.header().has_events == recorder::kUntilFull)
      out_.failure = "the file system had no room for more";
  }

  std::string place() const { return fmt::format("byte {}", kHeader + reader_.place()); }

  Snapshot run() {
    const ReadingAt at(*this);
    for (bool more = true; more;) {
      const std::size_t place = reader_.place();
      try {
        more = reader_.next();
        if (more) entry(reader_.entry());
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
    for (std::size_t device = 0; device < devices_.size(); ++device) tell_copies(out_, device);
    return std::move(out_);
  }

 private:
  struct Device {
    BlockLayout layout;
    std::int64_t last = 0;       // address of the last allocation
    std::size_t last_event = 0;  // its place in the trace
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

  void entry(const Entry& e) {
    switch (e.tag) {
      case Tag::string:
        strings_.emplace_back(e.text);
        return;
      case Tag::frame:
        frames_.push_back(frame({string(e.name), string(e.file), bytes(e.line)}));
        return;
      case Tag::stack:
        return stack(e);
      case Tag::node:
        return node(e);
      case Tag::event:
        return event(e);
      case Tag::block:
        return block(e);
      case Tag::label:
        return label(e);
      case Tag::use:
        return use(e);
      case Tag::phase:
        open_[string(e.name)].push_back({step_, moments()});
        return;
      case Tag::phase_end:
        return phase_end(e);
      case Tag::gather:
        return gather(e);
      case Tag::computed:
        return computed(e);
      case Tag::step:
        return step(e);
      case Tag::repeats:
        if (e.number < 1 || e.number > steps_.size())
          throw SnapshotError("repeats more steps than there are");
        out_.repeats.push_back({*(steps_.end() - static_cast<std::ptrdiff_t>(e.number)),
                                steps_.back(), bytes(e.count)});
        return;
      case Tag::skipped: {
        const auto& [first, last, steps, events] = e.skipped;
        skipped_.push_back(
            {{0, bytes(first), bytes(last), bytes(steps), bytes(events), {}}, moments()});
        skipped_until_ = reader_.place() + e.size;
        return;
      }
      case Tag::pool:
        return requests_.pool(e, device_at(e.device).layout, out_);
      case Tag::refused:
        return requests_.refused(e, device_at(e.device).layout, out_);
      case Tag::stream:
        out_.streams[bytes(e.stream)] = e.text;
        return;
      case Tag::source:
        out_.sources.push_back({std::string(e.text), bytes(e.line), std::string(e.value)});
        return;
      case Tag::setting:
        std::erase_if(out_.settings, [&](const auto& one) { return one.first == e.text; });
        out_.settings.emplace_back(e.text, e.value);
        return;
    }
  }
  static std::int64_t bytes(std::uint64_t number) { return static_cast<std::int64_t>(number); }

  void step(const Entry& e) {
    step_ = bytes(e.number);
    steps_.push_back(step_);
    for (std::size_t i = 0; i < devices_.size(); ++i)
      out_.steps.push_back({static_cast<std::int64_t>(i), step_, out_.traces[i].size()});
    if (reader_.place() <= skipped_until_) left_steps_.push_back({{0, step_, {}}, moments()});
  }

  void node(const Entry& e) {
    const std::vector<std::uint32_t>& frames = known(stacks_, e.stack);
    Node made{string(e.name), e.node == 0 ? frames : below(frames, known(nodes_, e.node)),
              e.module};
    if (made.module == 0) made.module = known(nodes_, e.node).module;
    nodes_.push_back(std::move(made));
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

  const std::string& string(std::uint64_t number) const { return known(strings_, number); }

  void stack(const Entry& e) {
    const std::vector<std::uint32_t>& caller = known(stacks_, e.caller);
    std::vector<std::uint32_t> frames{known(frames_, e.frame == 0 ? frames_.size() : e.frame)};
    frames.insert(frames.end(), caller.begin(),
                  caller.begin() + std::min<std::ptrdiff_t>(std::ssize(caller), kFrames - 1));
    stacks_.push_back(std::move(frames));
  }

  Device& device_at(std::uint64_t number) {
    if (number >= kDevices) throw SnapshotError(fmt::format("device {}", number));
    if (number >= devices_.size()) {
      devices_.resize(number + 1);
      out_.traces.resize(number + 1);
    }
    return devices_[number];
  }

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

  void event(const Entry& e) {
    if (e.action >= words(AllocatorAction()).size()) throw SnapshotError("an event of no action");
    const auto action = static_cast<AllocatorAction>(e.action);
    Device& one = device_at(e.device);
    auto& trace = out_.traces[e.device];
    AllocatorEvent event;
    event.action = action;
    event.address = action == AllocatorAction::oom ? bytes(e.left) : e.addresses[0];
    event.size = bytes(e.size);
    event.stream = bytes(e.stream);
    const auto [place, in] = place_of(e.stack, e.module, e.node);
    event.stack = place;
    event.module = modules_[string(in)];
    if (__builtin_add_overflow(begin_ns_, e.time, &event.time))
      throw SnapshotError("an event at a time beyond all clocks");
    if (action == AllocatorAction::snapshot) return;  // nothing has changed
    event.block = event.action == AllocatorAction::alloc ? recorder::rounded(event.size) : 0;
    one.layout.apply(event);
    if (event.action == AllocatorAction::alloc) {
      one.last = event.address;
      one.last_event = trace.size();
      ++one.moment.allocations;
    }
    if (event.action == AllocatorAction::free_completed) ++one.moment.frees;
    requests_.event(e.device, event, trace.size());
    trace.push_back(event);
  }

  void block(const Entry& e) {
    Device& one = device_at(e.device);
    if (const auto at = one.layout.blocks().find(one.last); at != one.layout.blocks().end())
      at->second.size = bytes(e.size);
    auto& trace = out_.traces[e.device];
    if (one.last_event < trace.size()) trace[one.last_event].block = bytes(e.size);
  }

  /// Calls see(device, allocations of it until now) where a block is at the address.
  void each_block(std::int64_t at, auto see) const {
    for (std::size_t i = 0; i < devices_.size(); ++i)
      if (devices_[i].layout.has_block_at(at))
        see(static_cast<std::int64_t>(i), devices_[i].moment.allocations);
  }

  void label(const Entry& e) {
    const std::string &kind = string(e.name), &name = string(e.file);
    each_block(e.addresses[0], [&](std::int64_t device, std::int64_t allocations) {
      if (const auto memory = memory_kind(kind))
        out_.labels.push_back({device, allocations, e.addresses[0], *memory, name});
      else if (const auto holder = holder_kind(kind))
        out_.holders.push_back({device, allocations, e.addresses[0], *holder, name});
      else
        throw SnapshotError(unknown_kind(kind));
    });
  }

  void use(const Entry& e) {
    if (static_cast<BlockUse>(e.number) == BlockUse::followed) return out_.uses.push_back({});
    each_block(e.addresses[0], [&](std::int64_t device, std::int64_t allocations) {
      out_.uses.push_back({device, allocations, e.addresses[0], static_cast<BlockUse>(e.number)});
    });
  }

  void gather(const Entry& e) {
    const auto [output, shard] = e.addresses;
    each_block(output, [&](std::int64_t device, std::int64_t allocations) {
      out_.gathers.push_back({device, allocations, output, shard, bytes(e.size)});
    });
  }

  void computed(const Entry& e) {
    const auto [output, source] = e.addresses;
    each_block(output, [&](std::int64_t device, std::int64_t allocations) {
      out_.computed.push_back({device, allocations, output, source});
    });
  }

  void phase_end(const Entry& e) {
    const std::string& name = string(e.name);
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

  void segments(std::size_t number) {
    for (Segment& segment : devices_[number].layout.segments()) {
      segment.device = static_cast<std::int64_t>(number);
      out_.segments.push_back(std::move(segment));
    }
  }

  recorder::EntryReader reader_;
  std::int64_t begin_ns_, counts_, step_ = 1;
  std::vector<std::pair<SkippedSteps, std::vector<ProgramPhase::Moment>>> skipped_;  // by device
  std::vector<std::pair<LeftStep, std::vector<ProgramPhase::Moment>>> left_steps_;   // likewise
  std::size_t skipped_until_ = 0;
  RequestReader requests_;
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
  return record_snapshot(*record, path.string());
}

Snapshot record_snapshot(const RecordBytes& record, const std::string& where) {
  try {
    return EventReader(record).run();
  } catch (const SnapshotError& error) {
    throw SnapshotError(where + ": " + error.what());
  }
}

}  // namespace tidemark
