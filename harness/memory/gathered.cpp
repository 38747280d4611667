#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "harness/memory/site.h"
#include "harness/memory/walk.h"
#include "harness/memory/wastes.h"

namespace tidemark {
namespace {

/// A gathered block, by the places of allocations in the trace.
struct Gathered {
  std::optional<std::size_t> shard;
  std::int64_t shard_bytes = 0;
  bool freed_in_backward = false;
};

class Search {
 public:
  Search(const Snapshot& snapshot, std::size_t device, const LabelOf& labels)
      : s_(snapshot), trace_(snapshot.traces[device]), labels_(labels) {
    for (const Gather& gather : s_.gathers)
      if (static_cast<std::size_t>(gather.device) == device) gathers_.push_back(gather);
    for (const ProgramPhase& phase : s_.phases)
      if (static_cast<std::size_t>(phase.device) == device && phase.name == "backward")
        backwards_[phase.begin] = phase.end;
  }

  Waste run() {
    find();
    std::erase_if(gathered_, [](const auto& one) { return !one.second.freed_in_backward; });
    weigh();
    return std::move(waste_);
  }

 private:
  // A free that is not the last event of the backward.
  bool in_backward(const ProgramPhase::Moment& moment) const {
    const auto after = backwards_.upper_bound(moment);
    return after != backwards_.begin() && moment < std::prev(after)->second;
  }

  bool copies_gathered(const AllocatorEvent& event) const {
    return std::ranges::any_of(s_.stacks[event.stack], [&](std::uint32_t at) {
      const StackFrame& frame = s_.frames[at];
      return frame.function.starts_with("all_gather") &&
             file_of_torch(s_, frame).starts_with("distributed/");
    });
  }

  bool is_activation(std::size_t event) const {
    const auto label = labels_.find(&trace_[event]);
    if (label != labels_.end() && label->second.kind != MemoryKind::activations) return false;
    const MemoryKind kind = part_of(s_, trace_[event], labels_).kind;
    return kind == MemoryKind::activations || kind == MemoryKind::other;
  }

  // The gathered blocks, and which of them a backward frees.
  void find() {
    TraceWalk walk(trace_);
    auto gather = gathers_.begin();
    std::optional<std::size_t> last;  // the latest gathered block
    while (walk.next()) {
      const AllocatorEvent& event = walk.event();
      if (event.action == AllocatorAction::alloc) {
        if (last && event.size == trace_[*last].size && copies_gathered(event) &&
            is_activation(walk.place()))
          gathered_[walk.place()] = gathered_[*last];
        for (; gather != gathers_.end() && gather->allocations <= walk.moment().allocations;
             ++gather)
          if (const auto block = walk.block_at(gather->output); block && is_activation(*block)) {
            gathered_[*block] = {walk.block_at(gather->shard), gather->shard_bytes};
            last = block;
          }
      } else if (event.action == AllocatorAction::free_requested && in_backward(walk.moment())) {
        if (const auto block = walk.block_of(event.address); block && gathered_.contains(*block))
          gathered_[*block].freed_in_backward = true;
      }
    }
  }

  // The moment at which they are most.
  void weigh() {
    TraceWalk walk(trace_);
    std::map<std::size_t, Gathered> alive;
    const auto take_moment = [&] {
      std::erase_if(alive, [&](const auto& one) { return !walk.holds(one.first); });
      std::vector<Part> parts;
      for (const auto& [block, one] : alive) {
        Part part = part_of(s_, trace_[block], labels_);
        if (!one.shard || !walk.holds(*one.shard)) part.bytes -= one.shard_bytes;
        if (part.bytes > 0) parts.push_back(std::move(part));
      }
      keep_most(waste_, parts, walk.active());
    };
    if (backwards_.contains({})) take_moment();
    while (walk.next()) {
      if (const auto entry = gathered_.find(walk.place()); entry != gathered_.end())
        alive.insert(*entry);
      if (walk.moved() && backwards_.contains(walk.moment())) take_moment();
    }
  }

  const Snapshot& s_;
  const std::vector<AllocatorEvent>& trace_;
  const LabelOf& labels_;
  std::vector<Gather> gathers_;                                     // of the device
  std::map<ProgramPhase::Moment, ProgramPhase::Moment> backwards_;  // begins and ends
  std::unordered_map<std::size_t, Gathered> gathered_;              // by allocation
  Waste waste_{
      .name = "gathered inputs that the graph keeps beyond their shards, when a backward begins"};
};

}  // namespace

Waste gathered_waste(const Snapshot& snapshot, std::size_t device, const LabelOf& labels) {
  return Search(snapshot, device, labels).run();
}

}  // namespace tidemark
