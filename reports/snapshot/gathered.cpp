#include "reports/snapshot/gathered.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

namespace tidemark {
namespace {

/// A gathered block, by the places of allocations in the trace.
struct Gathered {
  std::optional<std::size_t> shard;
  std::int64_t shard_bytes = 0;
  bool freed_in_backward = false;
};

/// A walk through the trace, with what is alive and the count of allocations and completed frees.
struct Walk {
  const std::vector<TraceEvent>& trace;
  std::map<std::int64_t, std::size_t> live = {};  // address: the allocation
  std::int64_t allocations = 0, moment = 0;

  void take(std::size_t i) {
    const TraceEvent& event = trace[i];
    if (event.action == Action::alloc) {
      live[event.address] = i;
      ++allocations, ++moment;
    } else if (event.action == Action::free_completed) {
      live.erase(event.address);
      ++moment;
    }
  }
  std::optional<std::size_t> block_at(std::int64_t address) const {
    const auto after = live.upper_bound(address);
    if (after == live.begin()) return {};
    const auto& [begin, event] = *std::prev(after);
    if (address >= begin + std::max<std::int64_t>(trace[event].size, 1)) return {};
    return event;
  }
};

class Search {
 public:
  Search(const Snapshot& snapshot, std::size_t device, const LabelOf& labels)
      : s_(snapshot), trace_(snapshot.traces[device]), labels_(labels) {
    for (const Gather& gather : s_.gathers)
      if (static_cast<std::size_t>(gather.device) == device) gathers_.push_back(gather);
    for (const ProgramPhase& phase : s_.phases)
      if (static_cast<std::size_t>(phase.device) == device && phase.name == "backward")
        backwards_[phase.begin.allocations + phase.begin.frees] =
            phase.end.allocations + phase.end.frees;
  }

  Waste run() {
    find();
    std::erase_if(gathered_, [](const auto& one) { return !one.second.freed_in_backward; });
    weigh();
    return std::move(waste_);
  }

 private:
  // A free that is not the last event of the backward.
  bool in_backward(std::int64_t moment) const {
    const auto after = backwards_.upper_bound(moment);
    return after != backwards_.begin() && moment < std::prev(after)->second;
  }

  bool copies_gathered(const TraceEvent& event) const {
    return std::ranges::any_of(s_.stacks[event.stack], [&](std::uint32_t at) {
      const StackFrame& frame = s_.frames[at];
      return frame.function.starts_with("all_gather") &&
             frame.file.find("/torch/distributed/") != std::string::npos;
    });
  }

  bool is_activation(std::size_t event) const {
    if (labels_.contains(event)) return false;
    const std::string kind = part_of(s_, trace_[event], nullptr).kind;
    return kind == "activations" || kind == "other";
  }

  // The gathered blocks, and which of them a backward frees.
  void find() {
    Walk walk{trace_};
    auto gather = gathers_.begin();
    std::optional<std::size_t> last;  // the latest gathered block
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      walk.take(i);
      const TraceEvent& event = trace_[i];
      if (event.action == Action::alloc && last && event.size == trace_[*last].size &&
          copies_gathered(event) && is_activation(i))
        gathered_[i] = gathered_[*last];
      if (event.action == Action::alloc)
        for (; gather != gathers_.end() && gather->allocations <= walk.allocations; ++gather)
          if (const auto block = walk.block_at(gather->output); block && is_activation(*block)) {
            gathered_[*block] = {walk.block_at(gather->shard), gather->shard_bytes};
            last = block;
          }
      if (event.action == Action::free_requested && in_backward(walk.moment))
        if (const auto block = walk.live.find(event.address); block != walk.live.end())
          if (const auto found = gathered_.find(block->second); found != gathered_.end())
            found->second.freed_in_backward = true;
    }
  }

  std::int64_t without_need(const Walk& walk, std::size_t block, const Gathered& one) const {
    const auto alive = [&](std::size_t event) {
      const auto found = walk.live.find(trace_[event].address);
      return found != walk.live.end() && found->second == event;
    };
    if (!alive(block)) return 0;
    return trace_[block].size - (one.shard && alive(*one.shard) ? 0 : one.shard_bytes);
  }

  // The moment at which they are most.
  void weigh() {
    Walk walk{trace_};
    std::int64_t active = 0;
    std::map<std::size_t, Gathered> alive;
    const auto take_moment = [&] {
      std::int64_t sum = 0;
      for (const auto& [block, one] : alive) sum += without_need(walk, block, one);
      if (waste_.bytes && *waste_.bytes >= sum) return;
      waste_.bytes = sum;
      waste_.active = active;
      std::vector<Part> parts;
      for (const auto& [block, one] : alive) {
        Part part = part_of(s_, trace_[block], nullptr);
        part.bytes = without_need(walk, block, one);
        if (part.bytes > 0) parts.push_back(std::move(part));
      }
      waste_.parts = sum_up(parts);
    };
    if (backwards_.contains(0)) take_moment();
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      const TraceEvent& event = trace_[i];
      if (event.action == Action::free_completed) {
        if (const auto found = walk.live.find(event.address); found != walk.live.end()) {
          alive.erase(found->second);
          active -= event.size;
        }
      } else if (event.action == Action::alloc) {
        active += event.size;
        if (const auto found = gathered_.find(i); found != gathered_.end()) alive.insert(*found);
      }
      const std::int64_t before = walk.moment;
      walk.take(i);
      if (walk.moment != before && backwards_.contains(walk.moment)) take_moment();
    }
  }

  const Snapshot& s_;
  const std::vector<TraceEvent>& trace_;
  const LabelOf& labels_;
  std::vector<Gather> gathers_;                         // of the device
  std::map<std::int64_t, std::int64_t> backwards_;      // counts at their begins and ends
  std::unordered_map<std::size_t, Gathered> gathered_;  // by allocation
  Waste waste_{
      "gathered inputs that the graph keeps beyond their shards, at the begin of a backward",
      {},
      0,
      {}};
};

}  // namespace

Waste gathered_waste(const Snapshot& snapshot, std::size_t device, const LabelOf& labels) {
  return Search(snapshot, device, labels).run();
}

}  // namespace tidemark
