// The kinds of an optimizer's memory where the optimizer is not one of PyTorch's. They follow from
// what is computed from gradients, and from what updates of parameters read.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "harness/memory/parts.h"
#include "harness/memory/walk.h"

namespace tidemark {
namespace {

class Updates {
 public:
  Updates(const Snapshot& snapshot, std::size_t device, LabelOf& labels)
      : s_(snapshot), device_(device), trace_(snapshot.traces[device]), labels_(labels) {}

  void run() {
    read();
    for (auto edge = edges_.rbegin(); edge != edges_.rend(); ++edge) take(*edge);
    while (!steps_.empty()) settle(steps_.begin()->first);
    for (const auto& [block, kind] : found_)
      labels_.try_emplace(&trace_[block], BlockLabel{kind, {}});
  }

 private:
  struct Edge {
    std::size_t output, source;  // places of allocations in the trace
    std::ptrdiff_t step;         // backwards that have ended
  };

  bool is(std::size_t block, MemoryKind kind) const {
    return kind_of(s_, trace_[block], labels_) == kind;
  }

  void read() {
    std::vector<std::int64_t> backwards;  // allocations until each ended
    for (const ProgramPhase& phase : s_.phases)
      if (static_cast<std::size_t>(phase.device) == device_ && phase.name == "backward")
        backwards.push_back(phase.end.allocations);
    std::ranges::sort(backwards);
    const TraceWalk end =
        each_label(s_, s_.computed, device_,
                   [&](const AllocatorEvent* output, const auto& one, const TraceWalk& walk) {
                     if (const auto source = walk.block_at(one.source))
                       edges_.push_back({static_cast<std::size_t>(output - trace_.data()), *source,
                                         std::ranges::upper_bound(backwards, one.allocations) -
                                             backwards.begin()});
                   });
    for (const auto& [address, block] : end.live()) left_.insert(block);
  }

  // From the last one to the first: the steps in which an update reads what a block has then.
  void take(const Edge& edge) {
    if (edge.output == edge.source) return settle(edge.output);  // its contents end here
    if ((steps_.contains(edge.output) || is(edge.output, MemoryKind::parameters)) &&
        is(edge.source, MemoryKind::other))
      steps_[edge.source].insert(edge.step);
  }

  void settle(std::size_t block) {
    const auto known = steps_.find(block);
    if (known == steps_.end()) return;
    const bool state = known->second.size() > 1;
    steps_.erase(known);
    if (!state && left_.contains(block)) return;
    MemoryKind& kind = found_.try_emplace(block, MemoryKind::optimizer_temporaries).first->second;
    if (state) kind = MemoryKind::optimizer_state;
  }

  const Snapshot& s_;
  const std::size_t device_;
  const std::vector<AllocatorEvent>& trace_;
  LabelOf& labels_;
  std::vector<Edge> edges_;
  std::unordered_set<std::size_t> left_;  // that the program has not freed
  std::unordered_map<std::size_t, MemoryKind> found_;
  std::unordered_map<std::size_t, std::set<std::ptrdiff_t>> steps_;
};

}  // namespace

void add_of_updates(const Snapshot& snapshot, std::size_t device, LabelOf& labels) {
  if (device < snapshot.traces.size() && !snapshot.computed.empty())
    Updates(snapshot, device, labels).run();
}

}  // namespace tidemark
