#include "reports/snapshot/wastes.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "reports/snapshot/walk.h"

namespace tidemark {
namespace {

using Blocks = std::vector<std::size_t>;  // places of their allocations in the trace

class Search {
 public:
  Search(const Snapshot& snapshot, std::size_t device, const LabelOf& labels)
      : s_(snapshot), trace_(snapshot.traces[device]), labels_(labels) {
    for (const ProgramPhase& phase : s_.phases)
      if (static_cast<std::size_t>(phase.device) == device && phase.name == "optimizer")
        steps_.insert(phase.begin);
  }

  std::vector<Waste> run(std::size_t peak_event) {
    while (walk_.next()) {
      if (walk_.place() + 1 == peak_event) keep(streams_, walk_.freed());
      if (walk_.moved() && steps_.contains(walk_.moment())) take_step();
    }
    return {std::move(streams_), std::move(activations_), std::move(buffers_)};
  }

 private:
  const Part& part(std::size_t event) {
    const auto found = parts_.find(event);
    if (found != parts_.end()) return found->second;
    const auto label = labels_.find(event);
    return parts_
        .emplace(event,
                 part_of(s_, trace_[event], label == labels_.end() ? nullptr : label->second))
        .first->second;
  }

  // Keeps the blocks if they are more than those of an earlier moment.
  void keep(Waste& waste, const Blocks& blocks) {
    std::int64_t sum = 0;
    for (const std::size_t event : blocks) sum += trace_[event].size;
    if (waste.bytes && *waste.bytes >= sum) return;
    std::vector<Part> parts;
    for (const std::size_t event : blocks) parts.push_back(part(event));
    waste.bytes = sum;
    waste.active = walk_.active();
    waste.parts = sum_up(parts);
  }

  void take_step() {
    Blocks activations, buffers;
    for (const auto& [address, event] : walk_.live()) {
      const std::string& kind = part(event).kind;
      if (kind == "activations") activations.push_back(event);
      if (kind == "sharding buffers") buffers.push_back(event);
    }
    keep(activations_, activations);
    keep(buffers_, buffers);
  }

  const Snapshot& s_;
  const std::vector<TraceEvent>& trace_;
  const LabelOf& labels_;
  TraceWalk walk_{trace_};
  std::set<ProgramPhase::Moment> steps_;
  std::unordered_map<std::size_t, Part> parts_;
  Waste streams_{"freed, but held for another stream, at the highest peak", {}, 0, {}};
  Waste activations_{
      "activations that outlive the backward, before an optimizer's step", {}, 0, {}};
  Waste buffers_{
      "gathered parameters and buckets that outlive the backward, before an optimizer's step",
      {},
      0,
      {}};
};

}  // namespace

std::vector<Waste> wastes_of(const Snapshot& snapshot, std::size_t device, const LabelOf& labels,
                             std::size_t peak_event) {
  if (device >= snapshot.traces.size()) return {};
  std::vector<Waste> out = Search(snapshot, device, labels).run(peak_event);
  out.push_back(gathered_waste(snapshot, device, labels));
  return out;
}

}  // namespace tidemark
