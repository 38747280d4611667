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
        moments_.insert(phase.begin);
    const bool steps = !moments_.empty();
    if (!steps) find_backwards(device);
    const std::string when = steps ? "before an optimizer's step" : "when a backward has ended";
    activations_.name = "activations that outlive the backward, " + when;
    buffers_.name = "gathered parameters and buckets that outlive the backward, " + when;
  }

  std::vector<Waste> run(std::size_t peak_event) {
    while (walk_.next()) {
      if (walk_.place() + 1 == peak_event) take_peak();
      if (walk_.moved() && moments_.contains(walk_.moment())) take_moment();
    }
    return {std::move(streams_), std::move(activations_), std::move(buffers_)};
  }

 private:
  // Ends of backwards that leave no forward without its own, and of the last one.
  void find_backwards(std::size_t device) {
    std::vector<ProgramPhase::Moment> forwards, backwards;
    for (const ProgramPhase& phase : s_.phases) {
      if (static_cast<std::size_t>(phase.device) != device) continue;
      if (phase.name == "forward") forwards.push_back(phase.begin);
      if (phase.name == "backward") backwards.push_back(phase.end);
    }
    std::ranges::sort(backwards);
    for (std::size_t i = 0; i < backwards.size(); ++i) {
      const auto begun = std::ranges::count_if(
          forwards, [&](const ProgramPhase::Moment& one) { return one < backwards[i]; });
      if (i + 1 == backwards.size() || begun <= static_cast<std::ptrdiff_t>(i + 1))
        moments_.insert(backwards[i]);
    }
  }

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

  void take_moment() {
    std::vector<Part> activations, buffers;
    for (const auto& [address, event] : walk_.live()) {
      if (walk_.is_freed(address)) continue;
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
  std::set<ProgramPhase::Moment> moments_;  // at which no backward is to come
  std::unordered_map<std::size_t, Part> parts_;
  Waste streams_{.name = "freed, but held for another stream, at the highest peak"};
  Waste activations_, buffers_;
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
