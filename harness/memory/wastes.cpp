#include "harness/memory/wastes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "harness/memory/walk.h"

namespace tidemark {
namespace {

class Search {
 public:
  Search(const Snapshot& snapshot, std::size_t device, const LabelOf& labels)
      : s_(snapshot), trace_(snapshot.traces[device]), labels_(labels) {
    for (const ProgramPhase& phase : s_.phases)
      if (static_cast<std::size_t>(phase.device) == device)
        phases_[phase.name].emplace_back(phase.begin, phase.end);
    for (auto& [name, phases] : phases_) std::ranges::sort(phases);
    // An optimizer that steps in a backward, one parameter after the other, ends none.
    for (const auto& [begin, end] : phases_["optimizer"])
      if (!is_in("backward", begin)) moments_.insert(begin);
    steps_ = !moments_.empty();
    if (!steps_) find_backwards();
    uses_ = uses_of(s_, device);
    find_holders(device);
    later_ = moments_.size();
    decides_ = uses_ && later_ > kLater;
    find_needed();
    const std::string when =
        fmt::format("that outlive the backward{}, {}", decides_ ? " and are not read again" : "",
                    steps_ ? "before an optimizer's step" : "when a backward has ended");
    for (Moments* of : {&ended_, &before_a_backward_}) {
      of->activations.name = "activations " + when;
      of->buffers.name = "gathered parameters and buckets " + when;
    }
  }

  std::vector<Waste> run(std::size_t peak_event) {
    bool is_due = false;
    while (walk_.next()) {
      if (walk_.place() + 1 == peak_event) take_peak();
      if (walk_.moved() && moments_.contains(walk_.moment())) is_due = true, --later_;
      if (!is_due || (!steps_ && frees_next())) continue;
      take_moment();
      is_due = false;
    }
    Moments& of = ended_.activations.bytes ? ended_ : before_a_backward_;
    return {std::move(streams_), std::move(garbage_), std::move(of.activations),
            std::move(of.buffers)};
  }

 private:
  using Moment = ProgramPhase::Moment;
  static constexpr std::size_t kLater = 2;  // moments that show whether a block is read again

  bool is_in(const char* name, const Moment& moment) {
    const auto& phases = phases_[name];
    const auto after =
        std::ranges::upper_bound(phases, moment, {}, &std::pair<Moment, Moment>::first);
    return after != phases.begin() && moment < std::prev(after)->second;
  }

  // True if the program frees next: memory freed right after a backward does not count as held.
  bool frees_next() const {
    const std::size_t next = walk_.place() + 1;
    return next < trace_.size() && (trace_[next].action == AllocatorAction::free_requested ||
                                    trace_[next].action == AllocatorAction::free_completed);
  }

  // The backwards whose last request was refused: the error ended them before they had freed what
  // the graph keeps.
  std::set<Moment> refused() {
    std::set<Moment> out;
    const auto& backwards = phases_["backward"];
    for (TraceWalk walk(trace_); walk.next();) {
      const bool is_refusal = walk.event().action == AllocatorAction::oom;
      if (!is_refusal && walk.event().action != AllocatorAction::alloc) continue;
      const auto after =
          std::ranges::upper_bound(backwards, walk.moment(), {}, &std::pair<Moment, Moment>::first);
      if (after == backwards.begin() || std::prev(after)->second < walk.moment()) continue;
      if (is_refusal)
        out.insert(std::prev(after)->first);
      else
        out.erase(std::prev(after)->first);
    }
    return out;
  }

  // Ends of backwards that leave no forward without its own, and of the last one; a backward in a
  // forward is none.
  void find_backwards() {
    std::vector<Moment> backwards;
    const std::set<Moment> ended_by_errors = refused();
    for (const auto& [begin, end] : phases_["backward"])
      if (!is_in("forward", begin) && !ended_by_errors.contains(begin)) backwards.push_back(end);
    std::ranges::sort(backwards);
    for (std::size_t i = 0; i < backwards.size(); ++i) {
      const auto begun = std::ranges::count_if(
          phases_["forward"], [&](const auto& one) { return one.first < backwards[i]; });
      if (i + 1 == backwards.size() || begun <= static_cast<std::ptrdiff_t>(i + 1))
        moments_.insert(backwards[i]);
    }
  }

  // Blocks that a backward frees: until then it needs them; and those that are freed at all.
  void find_needed() {
    for (TraceWalk walk(trace_); walk.next();) {
      if (walk.event().action != AllocatorAction::free_requested) continue;
      const auto block = walk.block_of(walk.event().address);
      if (!block) continue;
      freed_.insert(*block);
      if (is_in("backward", walk.moment())) needed_.insert(*block);
    }
  }

  // What holds blocks that steps have left behind, and what held one at such a moment, which may be
  // a variable of the step that is gone at the next one. Before the first moment that a block has
  // seen a graph may have held it, or a list of what the step had still to do.
  void find_holders(std::size_t device) {
    std::unordered_map<const AllocatorEvent*, Moment> made;
    for (TraceWalk walk(trace_); walk.next();)
      if (walk.event().action == AllocatorAction::alloc) made[&walk.event()] = walk.moment();
    holders_ = holders_of(s_, device, [&](const AllocatorEvent* block, const HolderLabel& one) {
      if (one.kind == HolderKind::before_step) {
        at_moments_[{block, one.allocations}] = one.name;
        return false;
      }
      const auto first = moments_.lower_bound(made.at(block));
      return first != moments_.end() && first->allocations < one.allocations;
    });
  }

  Holder holder_of(std::size_t event) const {
    const AllocatorEvent* block = &trace_[event];
    if (const auto now = at_moments_.find({block, walk_.moment().allocations});
        now != at_moments_.end())
      return {now->second};
    const auto holder = holders_.find(block);
    return holder == holders_.end() ? Holder{} : holder->second;
  }

  Use use_of(std::size_t event) const {
    if (!uses_) return {};
    const auto use = uses_->find(&trace_[event]);
    return use == uses_->end() ? Use{} : use->second;
  }

  // A read at the same count of allocations may have been before this moment: then it was needed,
  // for all that is known.
  bool is_read_later(std::size_t event) const {
    return use_of(event).last_read >= walk_.moment().allocations;
  }

  // Whether it is read again later is known.
  bool is_decided(std::size_t event) const {
    return !decides_ || freed_.contains(event) || later_ >= kLater;
  }

  const Part& part(std::size_t event) {
    const auto [entry, fresh] = parts_.try_emplace(event);
    if (fresh) entry->second = part_of(s_, trace_[event], labels_);
    return entry->second;
  }

  void take_peak() {
    std::vector<Part> streams, garbage;
    for (const std::size_t event : walk_.freed()) streams.push_back(part(event));
    keep_most(streams_, streams, walk_.active());
    if (!uses_) return;
    for (const auto& [address, event] : walk_.live())
      if (!walk_.is_freed(address) && use_of(event).collected && !is_read_later(event))
        garbage.push_back(part(event));
    keep_most(garbage_, garbage, walk_.active());
  }

  // The more of this moment or an earlier one, with what holds most of it.
  void keep(Waste& waste, const std::vector<std::size_t>& events) {
    std::vector<Part> parts;
    Holding holding;
    for (const std::size_t event : events) {
      parts.push_back(part(event));
      if (const Holder holder = holder_of(event); holder.is_known())
        holding.add(holder, trace_[event].size);
      else
        holding.add_unknown();
    }
    std::int64_t sum = 0;
    for (const Part& one : parts) sum += one.bytes;
    const Holder holder = holding.most();
    // Of moments with as much the one with a known holder: a program's first is not searched.
    if (waste.bytes == sum && !waste.holder.is_known() && holder.is_known()) waste.bytes.reset();
    const auto before = waste.bytes;
    keep_most(waste, parts, walk_.active());
    if (waste.bytes != before) waste.holder = holder;
  }

  void take_moment() {
    std::vector<std::size_t> activations, buffers;
    bool needed = false;
    for (const auto& [address, event] : walk_.live()) {
      if (walk_.is_freed(address)) continue;
      const MemoryKind kind = part(event).kind;
      const bool in_graph = kind == MemoryKind::activations ||
                            (kind == MemoryKind::backward && use_of(event).in_graph);
      if (in_graph && needed_.contains(event))
        needed = true;
      else if (is_read_later(event) || !is_decided(event))
        continue;
      else if (in_graph)
        activations.push_back(event);
      else if (kind == MemoryKind::sharding_buffers)
        buffers.push_back(event);
    }
    Moments& of = needed ? before_a_backward_ : ended_;
    keep(of.activations, activations);
    keep(of.buffers, buffers);
  }

  // The most of moments at which a later backward needs activations, and of all others. The former
  // count where there are no others, without what is needed.
  struct Moments {
    Waste activations, buffers;
  };

  const Snapshot& s_;
  const std::vector<AllocatorEvent>& trace_;
  const LabelOf& labels_;
  TraceWalk walk_{trace_};
  std::map<std::string, std::vector<std::pair<Moment, Moment>>>
      phases_;                              // begins and ends, by name
  std::set<ProgramPhase::Moment> moments_;  // at which no backward is to come
  bool steps_ = false;                      // they are those of an optimizer
  std::unordered_set<std::size_t> needed_, freed_;
  std::optional<UseOf> uses_;
  HolderOf holders_;
  std::map<std::pair<const AllocatorEvent*, std::int64_t>, std::string> at_moments_;
  std::size_t later_ = 0;  // of these moments, those to come
  bool decides_ = false;   // what is not read again was not needed
  std::unordered_map<std::size_t, Part> parts_;
  Waste streams_{.name = "freed, but held for another stream, at the highest peak"};
  Waste garbage_{.name =
                     "not read after the highest peak, and freed by Python's collector alone "
                     "(cycles of references)"};
  Moments ended_, before_a_backward_;
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
