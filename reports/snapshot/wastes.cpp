#include "reports/snapshot/wastes.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "reports/snapshot/walk.h"

namespace tidemark {
namespace {

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
      if (walk_.place() + 1 == peak_event) take_peak();
      if (walk_.moved() && steps_.contains(walk_.moment())) take_step();
    }
    return {std::move(streams_), std::move(activations_), std::move(buffers_)};
  }

 private:
  const Part& part(std::size_t event) {
    const auto [found, fresh] = parts_.try_emplace(event);
    if (fresh) found->second = part_of(s_, trace_[event], labels_);
    return found->second;
  }

  void take_peak() {
    std::vector<Part> streams;
    for (const std::size_t event : walk_.freed()) streams.push_back(part(event));
    keep_most(streams_, streams, walk_.active());
  }

  void take_step() {
    std::vector<Part> activations, buffers;
    for (const auto& [address, event] : walk_.live()) {
      const Part& one = part(event);
      if (one.kind == "activations") activations.push_back(one);
      if (one.kind == "sharding buffers") buffers.push_back(one);
    }
    keep_most(activations_, activations, walk_.active());
    keep_most(buffers_, buffers, walk_.active());
  }

  const Snapshot& s_;
  const std::vector<TraceEvent>& trace_;
  const LabelOf& labels_;
  TraceWalk walk_{trace_};
  std::set<ProgramPhase::Moment> steps_;
  std::unordered_map<std::size_t, Part> parts_;
  Waste streams_{.name = "freed, but held for another stream, at the highest peak"};
  Waste activations_{.name = "activations that outlive the backward, before an optimizer's step"};
  Waste buffers_{
      .name =
          "gathered parameters and buckets that outlive the backward, before an optimizer's step"};
};

}  // namespace

void keep_most(Waste& waste, const std::vector<Part>& parts, std::int64_t active) {
  std::int64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  if (waste.bytes && *waste.bytes >= sum) return;
  waste.bytes = sum;
  waste.active = active;
  waste.parts = sum_up(parts);
}

std::vector<Waste> wastes_of(const Snapshot& snapshot, std::size_t device, const LabelOf& labels,
                             std::size_t peak_event) {
  if (device >= snapshot.traces.size()) return {};
  std::vector<Waste> out = Search(snapshot, device, labels).run(peak_event);
  out.push_back(gathered_waste(snapshot, device, labels));
  return out;
}

}  // namespace tidemark
