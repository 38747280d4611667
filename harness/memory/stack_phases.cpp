#include "harness/memory/stack_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <unordered_map>

#include "harness/memory/rewind.h"
#include "harness/memory/site.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

enum class Phase : std::uint8_t { none, forward, backward, optimizer };
constexpr std::array kPhaseNames{"", "forward", "backward", "optimizer"};

struct StackFacts {
  Phase phase = Phase::none;
  bool again = false;   // a forward that a backward runs again
  bool builds = false;  // a module
  bool blas = false;    // a workspace of cuBLAS
  bool zeroes = false;  // an optimizer's zero_grad
  std::optional<MemoryKind> library;
};

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

class Stacks {
 public:
  explicit Stacks(const Snapshot& s) : s_(s), known_(s.stacks.size()) {
    for (const auto& trace : s.traces)
      for (const AllocatorEvent& e : trace)
        if (e.action == AllocatorAction::alloc && e.stack != 0 && has_python(e.stack)) {
          python_ = true;
          return;
        }
  }

  const StackFacts& of(std::uint32_t stack) {
    std::optional<StackFacts>& known = known_[stack];
    if (!known) known = facts(stack);
    return *known;
  }

 private:
  static bool is_python(const StackFrame& f) {
    return f.file.ends_with(".py") || f.file == "<string>";
  }
  bool has_python(std::uint32_t stack) const {
    return std::ranges::any_of(s_.stacks[stack],
                               [&](std::uint32_t at) { return is_python(s_.frames[at]); });
  }

  StackFacts facts(std::uint32_t stack) const {
    StackFacts out;
    const auto& frames = s_.stacks[stack];
    bool python = false, call = false, engine = false, recomputes = false;
    for (const std::uint32_t at : frames) {
      const StackFrame& f = s_.frames[at];
      const std::string torch = file_of_torch(s_, f);
      const bool is_py = is_python(f);
      python |= is_py;
      if (!is_py) {
        engine |= f.function.starts_with("torch::autograd::Engine::") ||
                  f.function.starts_with("torch::autograd::python::PythonEngine::");
        out.blas |= has(f.function, "CUDABlas") || has(f.function, "CurrentCUDABlasHandle");
      }
      if (torch == "nn/modules/module.py") {
        call |= has(f.function, "call_impl") || f.function == "__call__";
        out.builds |= f.function == "_apply" || f.function == "to_empty";
      }
      out.builds |= torch.starts_with("nn/") && (f.function == "__init__" || torch == "nn/init.py");
      out.builds |= f.function == "reset_parameters";
      out.zeroes |= f.function == "zero_grad";
      recomputes |= torch == "utils/checkpoint.py" &&
                    (has(f.function, "recompute") || has(f.function, "unpack_hook") ||
                     f.function == "backward");
      engine |= (torch == "autograd/graph.py" && f.function == "_engine_run_backward") ||
                (torch == "autograd/__init__.py" && f.function == "backward") ||
                (torch == "autograd/function.py" && f.function == "apply");
      const bool steps = (torch.starts_with("optim/") && !torch.starts_with("optim/lr_")) ||
                         (f.function == "step" && torch.empty() && has(f.file, "optim"));
      if (steps && f.function != "zero_grad") out.phase = Phase::optimizer;
    }
    if (out.phase != Phase::optimizer) {
      if (engine || recomputes || (!python && python_))
        out.phase = Phase::backward;
      else if (call || compiled(frames))
        out.phase = Phase::forward;
    }
    out.again = out.phase == Phase::backward && (recomputes || (call && engine));
    out.library = kind_of_library(s_, frames);
    return out;
  }

  bool compiled(const std::vector<std::uint32_t>& frames) const {
    return std::ranges::any_of(frames, [&](std::uint32_t at) {
      return has(file_of_torch(s_, s_.frames[at]), "_inductor/") ||
             has(s_.frames[at].file, "/torchinductor_");
    });
  }

  const Snapshot& s_;
  std::vector<std::optional<StackFacts>> known_;
  bool python_ = false;
};

struct Run {
  Phase phase = Phase::none;
  std::size_t first = 0, last = 0;  // events
  std::int64_t step = 1;
  bool only_state = true;  // of an optimizer: it allocates nothing but its state
};

/// Runs of allocations in one phase, by the order of the trace.
std::vector<Run> runs_of(const std::vector<AllocatorEvent>& trace, Stacks& stacks) {
  std::vector<Run> out;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const AllocatorEvent& e = trace[i];
    if (e.action != AllocatorAction::alloc && e.action != AllocatorAction::oom) continue;
    const Phase phase = stacks.of(e.stack).phase;
    if (phase == Phase::none) continue;
    if (out.empty() || out.back().phase != phase) out.push_back({phase, i, i});
    out.back().last = i;
    out.back().only_state &= stacks.of(e.stack).library == MemoryKind::optimizer_state;
  }
  return out;
}

/// Steps from 1; true if no optimizer is seen, so that backwards end them. One that allocates its
/// state alone is seen in its first step and not in the others.
bool number(std::vector<Run>& runs) {
  const bool by_backward = std::ranges::none_of(
      runs, [](const Run& one) { return one.phase == Phase::optimizer && !one.only_state; });
  std::int64_t step = 1;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // A step of several optimizers is one: nothing of another phase lies between.
    const bool ends = i > 0 && (by_backward ? runs[i - 1].phase != Phase::forward &&
                                                  runs[i].phase == Phase::forward
                                            : runs[i - 1].phase == Phase::optimizer);
    step += ends && runs[i].phase != Phase::optimizer ? 1 : 0;
    runs[i].step = step;
  }
  return by_backward;
}

class Telling {
 public:
  Telling(Snapshot& s, Stacks& stacks, std::size_t device)
      : s_(s), stacks_(stacks), device_(device), trace_(s.traces[device]) {}

  void run() {
    runs_ = runs_of(trace_, stacks_);
    if (runs_.empty()) return;
    s_.steps_by_backward |= number(runs_);
    count();
    phases();
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
                           moments_[one.last + 1], kPhaseNames[static_cast<std::size_t>(one.phase)],
                           one.step});
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

  MemoryKind kind(std::size_t i) {
    const AllocatorEvent& e = trace_[i];
    const StackFacts& facts = stacks_.of(e.stack);
    if (facts.blas) return MemoryKind::workspaces;
    const Run* run = run_at(i);
    const std::size_t until = freed_[i];
    const Run* next = run == nullptr || run == &runs_.back() ? nullptr : run + 1;
    const bool outlives = next != nullptr && next->first < until;
    switch (facts.phase) {
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
        return gradients_.contains(same) ? MemoryKind::gradients : MemoryKind::backward;
      }
      case Phase::forward:
        return facts.library.value_or(MemoryKind::activations);
      case Phase::none:
        return kind_outside(i, facts, run);
    }
    return MemoryKind::other;
  }

  MemoryKind kind_outside(std::size_t i, const StackFacts& facts, const Run* run) const {
    if (facts.library) return *facts.library;
    if (facts.builds) return MemoryKind::parameters;
    const std::size_t until = freed_[i];
    if (until == SIZE_MAX) return MemoryKind::other;
    const Run* end = run_at(until);
    if (run != nullptr && run->phase == Phase::forward && end != run && end != nullptr &&
        end->phase == Phase::backward)
      return MemoryKind::activations;
    const auto next = std::ranges::upper_bound(runs_, i, {}, &Run::first);
    const bool is_input =
        next != runs_.end() && next->phase == Phase::forward && next->first < until;
    return is_input ? MemoryKind::inputs : MemoryKind::other;
  }

  void label(std::size_t i) {
    s_.labels.push_back({static_cast<std::int64_t>(device_), moments_[i + 1].allocations,
                         trace_[i].address, kind(i), ""});
  }

  Snapshot& s_;
  Stacks& stacks_;
  const std::size_t device_;
  const std::vector<AllocatorEvent>& trace_;
  std::vector<Run> runs_;
  std::vector<ProgramPhase::Moment> moments_;  // before each event, and at the end
  std::vector<std::size_t> freed_;             // of an allocation, when the program frees it
  std::set<std::pair<std::uint32_t, Bytes>> gradients_;  // stacks and sizes
};

}  // namespace

void tell_from_stacks(Snapshot& s) {
  if (is_ours(s) || !s.phases.empty()) return;
  Stacks stacks(s);
  for (std::size_t device = 0; device < s.traces.size(); ++device) Telling(s, stacks, device).run();
  std::ranges::stable_sort(s.labels, {}, &TensorLabel::allocations);
  s.kinds_by_stacks = !s.labels.empty();
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
  Bytes level = 0, before = 0;
  for (const Segment& segment : s.segments)
    if (static_cast<std::size_t>(segment.device) == device)
      for (const MemoryBlock& block : segment.blocks)
        if (block.state != BlockState::inactive) level += block.requested;
  before = level;
  for (const AllocatorEvent& e : trace) {
    if (e.action == AllocatorAction::alloc) before -= e.size;
    if (e.action == AllocatorAction::free_completed) before += e.size;
  }
  if (before > 0)
    out.push_back(fmt::format(
        "the history has its last {} alone: {} were there before, and their lines, kinds and steps "
        "are not known",
        plural(std::ssize(trace), "event"), bytes_text(before)));
  const bool stacks = std::ranges::any_of(trace, [](const AllocatorEvent& e) {
    return e.action == AllocatorAction::alloc && e.stack != 0;
  });
  if (!stacks)
    out.emplace_back(
        "no stacks were recorded, so lines, kinds, phases and steps are not known "
        "(_record_memory_history(stacks=\"all\"))");
  else if (is_ours(s) && !s.kinds_by_stacks)
    return out;
  else if (s.phases.empty())
    out.emplace_back(
        "the stacks show no module, backward or optimizer, so kinds, phases and steps are not "
        "known");
  else if (std::ranges::none_of(s.phases,
                                [](const ProgramPhase& one) { return one.name != kPhaseNames[1]; }))
    out.emplace_back("the stacks show no backward and no optimizer, so steps are not told apart");
  else if (s.steps_by_backward)
    out.emplace_back(
        "the stacks show no optimizer in every step: a step is a backward here, counted from the "
        "begin of the "
        "history");
  else if (before > 0)
    out.emplace_back("steps are counted from the begin of the history");
  return out;
}

}  // namespace tidemark
