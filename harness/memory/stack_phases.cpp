#include "harness/memory/stack_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <unordered_map>

#include "harness/memory/annotations.h"
#include "harness/memory/site.h"
#include "harness/memory/stack_facts.h"
#include "harness/record/one_line.h"
#include "harness/record/string_table.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

using Phase = StackPhase;
constexpr std::array kPhaseNames{"", "forward", "backward", "optimizer"};

struct Run {
  Phase phase = Phase::none;
  std::size_t first = 0, end = 0;  // events; none where an optimizer allocates nothing
  std::int64_t step = 1;
  /// Of an optimizer: it allocates nothing but its state, and the program has not named its step.
  bool only_state = true;
};

/// The optimizers' steps that the program has named, as events from `first` to `end`; what their
/// closures run of a forward and a backward comes before them.
std::vector<Run> named_steps(const Snapshot& s, std::size_t device, StackReader& stacks) {
  const auto& trace = s.traces[device];
  std::vector<Run> out;
  for (const NamedRange& one : s.annotations) {
    if (static_cast<std::size_t>(one.device) != device || !is_optimizer_step(one)) continue;
    const auto at = [&](auto found) { return static_cast<std::size_t>(found - trace.begin()); };
    std::size_t first = at(std::ranges::lower_bound(trace, one.from, {}, &AllocatorEvent::time));
    const std::size_t end = at(std::ranges::upper_bound(trace, one.to, {}, &AllocatorEvent::time));
    for (std::size_t i = first; i < end; ++i) {
      const Phase phase = stacks.of(trace[i].stack).phase;
      if (trace[i].action == AllocatorAction::alloc &&
          (phase == Phase::forward || phase == Phase::backward))
        first = i + 1;
    }
    if (end > 0 && (out.empty() || out.back().end <= first))
      out.push_back({Phase::optimizer, first, std::max(first, end), 1, false});
  }
  return out;
}

/// Runs of allocations in one phase, by the order of the trace.
std::vector<Run> runs_of(const std::vector<AllocatorEvent>& trace, const std::vector<Run>& named,
                         StackReader& stacks) {
  std::vector<Run> out;
  auto step = named.begin();
  bool apart = false;  // allocations without a stack lie between two steps
  const auto begin_step = [&] {
    if (out.empty() || out.back().phase != Phase::optimizer || apart) out.push_back(*step);
    apart = false;
    out.back().only_state = false;
    out.back().end = std::max(out.back().end, step->first);
  };
  for (std::size_t i = 0; i < trace.size(); ++i) {
    for (; step != named.end() && step->first <= i; ++step) begin_step();
    const AllocatorEvent& e = trace[i];
    if (e.action != AllocatorAction::alloc && e.action != AllocatorAction::oom) continue;
    Phase phase = stacks.of(e.stack).phase;
    if (phase == Phase::none && step != named.begin() && i < std::prev(step)->end)
      phase = Phase::optimizer;
    apart |= phase == Phase::none && e.stack == 0;
    if (phase == Phase::none) continue;
    if (out.empty() || out.back().phase != phase) out.push_back({phase, i, i});
    out.back().end = i + 1;
    out.back().only_state &= stacks.of(e.stack).library == MemoryKind::optimizer_state;
  }
  for (; step != named.end(); ++step) begin_step();
  for (Run& one : out) one.end = std::max(one.first, one.end);
  return out;
}

/// Steps from 1; true if no optimizer is seen, so that backwards end them. One that allocates its
/// state alone is seen in its first step and not in the others.
bool number(std::vector<Run>& runs) {
  const bool by_backward = std::ranges::none_of(
      runs, [](const Run& one) { return one.phase == Phase::optimizer && !one.only_state; });
  std::int64_t step = 1;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // A step of several optimizers is one run: nothing of another phase lies between.
    const bool ends = i > 0 && (by_backward ? runs[i - 1].phase != Phase::forward &&
                                                  runs[i].phase == Phase::forward
                                            : runs[i - 1].phase == Phase::optimizer);
    step += ends ? 1 : 0;
    runs[i].step = step;
  }
  return by_backward;
}

class Telling {
 public:
  Telling(Snapshot& s, StackReader& stacks, std::size_t device)
      : s_(s), stacks_(stacks), device_(device), trace_(s.traces[device]) {}

  void run() {
    named_ = named_steps(s_, device_, stacks_);
    runs_ = runs_of(trace_, named_, stacks_);
    if (runs_.empty()) return;
    s_.steps_by_backward |= number(runs_);
    count();
    phases();
    ranges();
    const auto has_stack = [](const AllocatorEvent& e) {
      return e.action == AllocatorAction::alloc && e.stack != 0;
    };
    if (std::ranges::none_of(trace_, has_stack)) return;
    lives();
    for (std::size_t i = 0; i < trace_.size(); ++i)
      if (trace_[i].action == AllocatorAction::alloc) label(i);
  }

 private:
  void count() {
    ProgramPhase::Moment now;
    moments_.push_back(now);
    for (const AllocatorEvent& e : trace_) {
      now.allocations += e.action == AllocatorAction::alloc;
      now.frees += e.action == AllocatorAction::free_completed;
      moments_.push_back(now);
    }
  }

  void phases() {
    for (const Run& one : runs_)
      s_.phases.push_back({static_cast<std::int64_t>(device_), moments_[one.first],
                           moments_[one.end], kPhaseNames[static_cast<std::size_t>(one.phase)],
                           one.step});
  }

  /// Ranges of the program's own; each is in the step that runs when it begins.
  void ranges() {
    for (const NamedRange& one : s_.annotations) {
      if (static_cast<std::size_t>(one.device) != device_ || is_pytorchs(one)) continue;
      const auto from = std::ranges::lower_bound(trace_, one.from, {}, &AllocatorEvent::time),
                 to = std::ranges::upper_bound(trace_, one.to, {}, &AllocatorEvent::time);
      const auto at = [&](auto event) { return static_cast<std::size_t>(event - trace_.begin()); };
      if (from >= to) continue;
      const auto run = std::ranges::upper_bound(runs_, at(from), {}, &Run::end);
      s_.phases.push_back({static_cast<std::int64_t>(device_), moments_[at(from)], moments_[at(to)],
                           one.name, run == runs_.end() ? runs_.back().step : run->step});
    }
  }

  void lives() {
    freed_.assign(trace_.size(), SIZE_MAX);
    std::unordered_map<std::int64_t, std::size_t> alive;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      const AllocatorEvent& e = trace_[i];
      if (e.action == AllocatorAction::alloc) alive[e.address] = i;
      if (e.action != AllocatorAction::free_requested &&
          e.action != AllocatorAction::free_completed)
        continue;
      if (const auto block = alive.find(e.address); block != alive.end()) {
        freed_[block->second] = i;
        alive.erase(block);
      }
    }
  }

  /// The run of the allocation, or the one before it; nullptr before the first.
  const Run* run_at(std::size_t event) const {
    const auto after = std::ranges::upper_bound(runs_, event, {}, &Run::first);
    return after == runs_.begin() ? nullptr : &*std::prev(after);
  }

  /// A block as PyTorch makes one for cuBLAS, of which the stack says nothing without C++ frames:
  /// of that size, the only one of its stack that stays, though its phase comes again.
  bool is_workspace(std::size_t i) const {
    constexpr std::array<Bytes, 2> kSizes{8'519'680, 33'554'432};  // Hopper and later: the second
    const AllocatorEvent& e = trace_[i];
    if (freed_[i] != SIZE_MAX || std::ranges::find(kSizes, e.size) == kSizes.end()) return false;
    const Phase phase = stacks_.of(e.stack).phase;
    const auto later = std::ranges::upper_bound(runs_, i, {}, &Run::first);
    if ((phase != Phase::forward && phase != Phase::backward) ||
        std::none_of(later, runs_.end(), [&](const Run& one) { return one.phase == phase; }))
      return false;
    for (std::size_t other = 0; other < trace_.size(); ++other)
      if (const AllocatorEvent& one = trace_[other];
          other != i && one.action == AllocatorAction::alloc && one.size == e.size &&
          one.stack == e.stack && one.stream == e.stream && freed_[other] == SIZE_MAX)
        return false;
    return true;
  }

  bool in_named_step(std::size_t event) const {
    const auto after = std::ranges::upper_bound(named_, event, {}, &Run::first);
    return after != named_.begin() && event < std::prev(after)->end;
  }

  MemoryKind kind(std::size_t i) {
    const AllocatorEvent& e = trace_[i];
    const StackFacts& facts = stacks_.of(e.stack);
    if (facts.blas || is_workspace(i)) return MemoryKind::workspaces;
    const Run* run = run_at(i);
    const std::size_t until = freed_[i];
    const Run* next = run == nullptr || run == &runs_.back() ? nullptr : run + 1;
    const bool outlives = next != nullptr && next->first <= until;
    switch (facts.phase == Phase::none && in_named_step(i) ? Phase::optimizer : facts.phase) {
      case Phase::optimizer:
        if (facts.library == MemoryKind::optimizer_state || outlives)
          return MemoryKind::optimizer_state;
        return MemoryKind::optimizer_temporaries;
      case Phase::backward: {
        if (facts.library) return *facts.library;
        if (facts.again) return MemoryKind::activations;
        const std::pair same(e.stack, e.size);
        const bool zeroed = until != SIZE_MAX && stacks_.of(trace_[until].stack).zeroes;
        if (outlives || zeroed) gradients_.insert(same);
        const bool stays = next == nullptr && until >= run->end && gradients_.contains(same);
        return outlives || zeroed || stays ? MemoryKind::gradients : MemoryKind::backward;
      }
      case Phase::forward:
        return facts.library.value_or(MemoryKind::activations);
      case Phase::none:
        return kind_outside(i, facts, run);
    }
    return MemoryKind::other;
  }

  MemoryKind kind_outside(std::size_t i, const StackFacts& facts, const Run* run) {
    if (facts.library) return *facts.library;
    if (facts.builds) return MemoryKind::parameters;
    const std::uint32_t stack = trace_[i].stack;
    const std::size_t until = freed_[i];
    const bool known = stack != 0 && inputs_.contains(stack);
    if (until == SIZE_MAX) return known ? MemoryKind::inputs : MemoryKind::other;
    const Run* end = run_at(until);
    if (run != nullptr && run->phase == Phase::forward && end != run && end != nullptr &&
        end->phase == Phase::backward && !known)
      return MemoryKind::activations;
    const auto next = std::ranges::upper_bound(runs_, i, {}, &Run::first);
    const bool is_input =
        next != runs_.end() && next->phase == Phase::forward && next->first < until;
    if (is_input) inputs_.insert(stack);
    return is_input || known ? MemoryKind::inputs : MemoryKind::other;
  }

  void label(std::size_t i) {
    s_.labels.push_back({static_cast<std::int64_t>(device_), moments_[i + 1].allocations,
                         trace_[i].address, kind(i), ""});
  }

  Snapshot& s_;
  StackReader& stacks_;
  const std::size_t device_;
  const std::vector<AllocatorEvent>& trace_;
  std::vector<Run> named_;  // the optimizers' steps
  std::vector<Run> runs_;
  std::vector<ProgramPhase::Moment> moments_;  // before each event, and at the end
  std::vector<std::size_t> freed_;             // of an allocation, when the program frees it
  std::set<std::pair<std::uint32_t, Bytes>> gradients_;  // stacks and sizes
  std::set<std::uint32_t> inputs_;                       // stacks
};

/// The module of each allocation, and what the program has said of its thread's memory.
void name_modules(Snapshot& s, StackReader& stacks) {
  StringTable all;
  all[""];
  for (auto& trace : s.traces)
    for (AllocatorEvent& e : trace) {
      std::string text;
      if (e.action == AllocatorAction::alloc || e.action == AllocatorAction::oom) {
        const std::string& said = s.modules[e.module];
        text = stacks.of(e.stack).module;
        if (!said.empty()) text += (text.empty() ? "" : ", ") + one_line(said);
      }
      e.module = all[text];
    }
  s.modules = all.all();
}

}  // namespace

void tell_from_stacks(Snapshot& s) {
  if (is_ours(s) || !s.phases.empty()) return;
  StackReader stacks(s);
  for (std::size_t device = 0; device < s.traces.size(); ++device) Telling(s, stacks, device).run();
  name_modules(s, stacks);
  std::ranges::stable_sort(s.labels, {}, &TensorLabel::allocations);
  s.kinds_by_stacks = !s.labels.empty();
}

namespace {

/// Requested bytes before the trace's first event, by the blocks at its end.
Bytes bytes_before(const Snapshot& s, std::size_t device) {
  Bytes out = 0;
  for (const Segment& segment : s.segments)
    if (static_cast<std::size_t>(segment.device) == device)
      for (const MemoryBlock& block : segment.blocks)
        if (block.state != BlockState::inactive) out += block.requested;
  for (const AllocatorEvent& e : s.traces[device]) {
    if (e.action == AllocatorAction::alloc) out -= e.size;
    if (e.action == AllocatorAction::free_completed) out += e.size;
  }
  return out;
}

}  // namespace

std::string contradiction_of(const Snapshot& s, std::size_t device) {
  if (device >= s.traces.size()) return "";
  std::unordered_map<std::int64_t, bool> alive;  // by address
  const auto& trace = s.traces[device];
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const AllocatorEvent& e = trace[i];
    const bool takes = e.action == AllocatorAction::alloc;
    if (!takes && e.action != AllocatorAction::free_completed) continue;
    const auto [known, fresh] = alive.try_emplace(e.address, takes);
    if (!fresh && known->second == takes)
      return fmt::format("its trace lacks {}: event {} {} the block at address {:#x}, which {}",
                         takes ? "completed frees" : "allocations", i,
                         takes ? "allocates" : "frees", e.address,
                         takes ? "nothing has freed"
                               : "is free (_record_memory_history with "
                                 "skip_actions leaves events out)");
    known->second = takes;
  }
  const auto is = [](auto... actions) {
    return [=](const AllocatorEvent& e) { return ((e.action == actions) || ...); };
  };
  const auto taken =
      std::ranges::find_if(trace, is(AllocatorAction::segment_alloc, AllocatorAction::segment_map));
  if (taken != trace.end() && std::ranges::none_of(trace, is(AllocatorAction::alloc)) &&
      std::any_of(taken, trace.end(), is(AllocatorAction::free_completed)))
    return "its trace lacks allocations: memory is taken for them and given back, and none is "
           "there";
  if (bytes_before(s, device) < 0)
    return "its trace lacks completed frees: it allocates more than is there at its end";
  return "";
}

std::vector<std::string> limits_of(const Snapshot& s, std::size_t device) {
  std::vector<std::string> out;
  const bool traced = device < s.traces.size() && !s.traces[device].empty();
  if (!traced) {
    out.emplace_back(
        "the file has no trace: it says what is there at its moment, and not what was before "
        "(torch.cuda.memory._record_memory_history records one)");
    return out;
  }
  const auto& trace = s.traces[device];
  const Bytes before = bytes_before(s, device);
  if (before > 0)
    out.push_back(fmt::format(
        "{} are from before the {} of the history, which began later or has kept its last ones "
        "alone: their kinds and steps are not known",
        bytes_text(before), plural(std::ssize(trace), "event")));
  const bool stacks = std::ranges::any_of(trace, [](const AllocatorEvent& e) {
    return (e.action == AllocatorAction::alloc || e.action == AllocatorAction::oom) && e.stack != 0;
  });
  const auto is_phase = [&](std::size_t phase) {
    return std::ranges::any_of(
        s.phases, [&](const ProgramPhase& one) { return one.name == kPhaseNames[phase]; });
  };
  if (!stacks)
    out.push_back(
        fmt::format("no stacks were recorded, so lines{} are not known "
                    "(_record_memory_history(stacks=\"all\"))",
                    s.phases.empty() ? ", kinds, phases and steps" : " and kinds"));
  else if (is_ours(s) && !s.kinds_by_stacks)
    return out;
  else if (s.phases.empty())
    out.emplace_back(
        "the stacks show no module, backward or optimizer, so kinds, phases and steps are not "
        "known");
  else if (!is_phase(2) && !is_phase(3))
    out.emplace_back("the stacks show no backward and no optimizer, so steps are not told apart");
  else if (s.steps_by_backward)
    out.emplace_back(
        "neither stacks nor named ranges show an optimizer in every step: a step is a backward "
        "here, counted from the begin of the history");
  else if (before > 0)
    out.emplace_back("steps are counted from the begin of the history");
  return out;
}

}  // namespace tidemark
