// A crude model of sharded training with prefetch: close enough to the real thing for charts to
// look like it.
#include "reports/testing/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "harness/memory/testing/made_record.h"
#include "harness/record/gzip.h"
#include "reports/testing/sample_parts.h"

namespace tidemark {
namespace {

struct Policy {
  const char* name;
  Role role;
  int flat;       // flat buffers alive at once
  bool records;   // their blocks stay active until the device has caught up
  double slower;  // step time, relative
};
constexpr Policy kPolicies[] = {{"record_stream", Role::baseline, 1, true, 1.0},
                                {"separate_streams", Role::baseline, 2, false, 1.0},
                                {"stash", Role::fixed, 1, false, 1.0},
                                {"per_collective", Role::fixed, 1, false, 1.002},
                                {"rate_limiter", Role::fixed, 2, false, 1.14},
                                {"two_buffers", Role::fixed, 2, false, 1.01},
                                {"no_reference", Role::control, 0, false, 1.0},
                                {"unstash_before_wait", Role::control, 1, false, 1.0}};

/// Number of frees between a free and the device's being done with the block.
std::size_t lag(const Policy& policy, const std::string& schedule) {
  if (!policy.records || schedule == "instant") return 0;
  return schedule == "calibrated" ? 5 : 1000;
}

/// The record of a rank's memory: blocks one behind the other in one segment.
class MemoryModel {
 public:
  MemoryModel() {
    record_.stream(1, "stream 1");
    record_.step(1);
    record_.event(AllocatorAction::segment_alloc, kBase, Bytes{1} << 40, 0, 1);
  }

  void open(MemoryKind kind, Bytes bytes, Ns time, const std::string& module) {
    record_.event(AllocatorAction::alloc, next_, bytes, time, 1, "aten::empty", module);
    record_.label(next_, kind);
    alive_[kind].push_back({next_, bytes});
    next_ += bytes;
  }
  /// The last blocks of a kind; `waits`: another stream has them until they are given back.
  void free(MemoryKind kind, Bytes bytes, Ns time, bool waits) {
    for (auto& alive = alive_[kind]; bytes > 0; alive.pop_back()) {
      const Block block = alive.back();
      bytes -= block.bytes;
      record_.event(AllocatorAction::free_requested, block.address, block.bytes, time, 1);
      waiting_.push_back(block);
      if (!waits) give_back(time, waiting_.size() - 1);
    }
  }
  void give_back(Ns time, std::size_t at = 0) {
    const auto block = waiting_.begin() + static_cast<std::ptrdiff_t>(at);
    record_.event(AllocatorAction::free_completed, block->address, block->bytes, time, 1);
    waiting_.erase(block);
  }
  void phase(const std::string& name, Ns time) {
    if (!phase_.empty()) record_.phase_end(phase_, time);
    record_.phase(phase_ = name, time);
  }
  std::string packed(Ns time) {
    record_.phase_end(phase_, time);
    return packed_bytes(record_.bytes());
  }

 private:
  static constexpr std::int64_t kBase = std::int64_t{1} << 40;
  struct Block {
    std::int64_t address;
    Bytes bytes;
  };
  MadeRecord record_;
  std::int64_t next_ = kBase;
  std::map<MemoryKind, std::vector<Block>> alive_;
  std::deque<Block> waiting_;
  std::string phase_;
};

class RankModel {
 public:
  RankModel(int index, int layers, const Policy& policy, const std::string& schedule)
      : layers_(layers), lag_(lag(policy, schedule)), policy_(policy) {
    record_.rank = index;
    unit_ = 64 * kMiB + index * Bytes{2048};
    tick_ = static_cast<Ns>(180'000 * policy.slower) + Ns{311} * index;
    alive_[MemoryKind::parameters] = alive_[MemoryKind::optimizer_state] = layers_ * unit_ / 4;
    allocated_ = active_ = layers_ * unit_ / 4 * 2;
    reserved_ = allocated_ + 40 * kMiB;
    record_.rest_before = allocated_;
    for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::optimizer_state})
      memory_.open(kind, layers_ * unit_ / 4, 0, "");
  }

  std::string memory() { return memory_.packed(time_); }

  RankRecord run() {
    phase("forward");
    for (int i = 0; i < layers_; ++i) unit(i, MemoryKind::activations, 6 * kMiB, false);
    phase("backward");
    for (int i = layers_; i-- > 0;) unit(i, MemoryKind::gradients, unit_ / 4, true);
    module_ = "";
    phase("optimizer");
    for (int i = 0; i < 4; ++i) {
      change(MemoryKind::optimizer_temporaries, unit_ / 2, unit_ / 2);
      change(MemoryKind::optimizer_temporaries, -unit_ / 2, -unit_ / 2);
    }
    for (int i = 0; i < layers_; ++i) change(MemoryKind::gradients, -unit_ / 4, -unit_ / 4);
    while (!waiting_.empty()) drain();
    record_.rest_after = allocated_;
    for (const auto& [kind, bytes] : alive_) record_.categories[kind] = {at_peak_[kind], bytes};
    record_.counters = {lag_ > 100 ? 3 : 0, 0, 37, 5, 1, 1184, 2, {}};
    record_.counters.collectives = {{"all_gather", 2 * layers_}, {"reduce_scatter", layers_}};
    return record_;
  }

 private:
  void phase(const char* name) {
    if (record_.steps.empty()) record_.steps.emplace_back();
    record_.steps[0].phases.push_back({name, {}});
    record_.phase_starts.emplace_back(name, time_);
    memory_.phase(name, time_);
    record_.steps[0].moments.push_back({std::string(name) + " begins", allocated_, allocated_});
    change(MemoryKind::optimizer_temporaries, 0, 0);
  }

  void unit(int layer, MemoryKind kept, Bytes bytes, bool backward) {
    module_ = fmt::format("layers.{}", layer);
    for (int i = 0; i < std::max(1, policy_.flat); ++i)
      change(MemoryKind::sharding_buffers, unit_, unit_);
    change(MemoryKind::gathered_parameters, unit_, unit_);
    for (int i = 0; i < std::max(1, policy_.flat); ++i)
      release(MemoryKind::sharding_buffers, unit_);
    for (int i = 0; i < 6; ++i) {
      change(MemoryKind::optimizer_temporaries, 5 * kMiB, 5 * kMiB);
      if (i % 2) change(MemoryKind::optimizer_temporaries, -10 * kMiB, -10 * kMiB);
    }
    change(kept, bytes, bytes);
    if (backward) {
      change(MemoryKind::activations, -6 * kMiB, -6 * kMiB);
      change(MemoryKind::sharding_buffers, unit_, unit_);
      release(MemoryKind::sharding_buffers, unit_);
    }
    change(MemoryKind::gathered_parameters, -unit_, -unit_);
  }

  void release(MemoryKind category, Bytes bytes) {
    change(category, -bytes, 0);
    waiting_.push_back(bytes);
    while (waiting_.size() > lag_) drain();
  }

  void drain() {
    change(MemoryKind::sharding_buffers, 0, -waiting_.front());
    waiting_.pop_front();
  }

  void change(MemoryKind category, Bytes allocated, Bytes active) {
    if (allocated > 0 || active > 0) time_ += tick_;  // a free takes no time: its sample shares one
    alive_[category] += allocated;
    if (allocated > 0) memory_.open(category, allocated, time_, module_);
    if (allocated < 0) memory_.free(category, -allocated, time_, active == 0);
    if (allocated == 0 && active < 0) memory_.give_back(time_);
    allocated_ += allocated;
    active_ += active;
    reserved_ = std::max(reserved_, (active_ / (20 * kMiB) + 2) * 20 * kMiB);
    if (allocated_ > highest_) {
      highest_ = allocated_;
      at_peak_ = alive_;
    }
    Phase& now = record_.steps[0].phases.back();
    const Bytes levels[] = {allocated_, active_, reserved_, allocated_ - 1024};
    for (std::size_t s = 0; s < 4; ++s)
      now.levels[s] = {std::max(now.levels[s].peak, levels[s]), levels[s]};
    record_.timeline.push_back({time_, allocated_, active_, reserved_});
  }

  int layers_;
  std::size_t lag_;
  Policy policy_;
  RankRecord record_;
  MemoryModel memory_;
  std::string module_;
  Bytes unit_ = 0, allocated_ = 0, active_ = 0, reserved_ = 0, highest_ = 0;
  std::map<MemoryKind, Bytes> alive_, at_peak_;
  Ns time_ = 0, tick_ = 0;
  std::deque<Bytes> waiting_;
};

// 128 MiB a layer, and for what records as much again in active; measured at both ends and at its
// own value.
Growth growth(const Policy& policy, int layers) {
  Growth out{"layers", 0, {}};
  for (int value = layers / 2; value <= 2 * layers; ++value) {
    const Bytes allocated = 600 * kMiB + Bytes{128} * value * kMiB;
    const Peaks peaks{allocated, allocated * (policy.records ? 2 : 1), std::nullopt, std::nullopt};
    const bool seen = value == layers / 2 || value == layers || value == 2 * layers;
    out.points.push_back({value, peaks, seen ? peaks : Peaks{}});
  }
  return out;
}

VariantRecord variant(const Policy& policy, const TrialRecord& trial, int layers) {
  VariantRecord out;
  out.name = policy.name;
  out.role = policy.role;
  const bool wrong = out.name == "unstash_before_wait";
  for (int i = 0; i < trial.steps; ++i) {
    const double loss =
        6.9 * std::exp(-0.11 * i) + 0.2 * std::sin(1.7 * i) + (wrong ? 0.05 * i : 0.0);
    out.loss.push_back({i, trial.mode == Mode::math ? std::optional(loss) : std::nullopt});
  }
  for (int r = 0; r < trial.ranks; ++r) {
    RankModel model(r, layers, policy, trial.schedule);
    out.ranks.push_back(model.run());
    add_memory(out.ranks.back(), 64 * kMiB, policy.records && trial.schedule == "lagging");
    out.ranks.back().memory = trial.schedule == "lagging" ? model.memory() : "";
    if (policy.flat == 0) add_race(out.ranks.back());
  }
  if (trial.mode == Mode::math) out.gradients = sample_gradients(policy.role, wrong);
  out.what = fmt::format("flat buffers: {}", policy.flat);
  for (int i = 0; i < trial.steps; ++i)
    out.step_time_ns.push_back(out.ranks[0].timeline.back().time);
  for (double ratio = 0.25; trial.schedule == "calibrated" && ratio <= 16; ratio *= 2) {
    const Bytes low = 600 * kMiB, high = low + (policy.records ? Bytes{128} * layers * kMiB : 0);
    const double ahead = std::clamp((ratio - 0.7) / 6, 0.0, 1.0);
    const Bytes active = low + static_cast<Bytes>(ahead * static_cast<double>(high - low));
    out.sweep.push_back({ratio, low, active, active + 64 * kMiB, 4'000'000});
  }
  if (trial.schedule == "lagging" && (out.name == "record_stream" || out.name == "stash"))
    out.growth.push_back(growth(policy, layers));
  return out;
}

}  // namespace

Report sample_report(int layers) {
  Report report = small_report();
  report.trials.erase(report.trials.begin(), report.trials.end() - 1);
  for (Mode mode : {Mode::math, Mode::shapes}) {
    for (const char* schedule : {"instant", "calibrated", "lagging"}) {
      TrialRecord trial{
          .scenario = "fsdp_prefetch",
          .size = mode == Mode::math ? "smoke" : "scale",
          .schedule = schedule,
          .mode = mode,
          .ranks = 4,
          .steps = 12,
          .params = {
              {"batch", 16}, {"hidden", 384}, {"layers", layers}, {"reshard_after_forward", 1}}};
      const int factor = mode == Mode::math ? 1 : 2;
      for (const Policy& policy : kPolicies)
        trial.variants.push_back(variant(policy, trial, factor * layers));
      trial.statistic = Statistic::active;
      using enum MemoryKind;
      trial.symbols = {{"U", "a unit, gathered", {gathered_parameters}, 64.0 * kMiB},
                       {"A", "activations of a step", {activations}},
                       {"B", "a flat buffer", {sharding_buffers}},
                       {"rest", "what stays between steps", {parameters, optimizer_state}},
                       {"n", "buffers that wait for the device"}};
      trial.kept = "by the communication stream";
      trial.seen = {{"example/training#12", "https://github.com/example/training/issues/12",
                     "buffers that wait for a stream"},
                    {"own", "", "a second reading of it"}};
      trial.published = {{"example/training#12", "a 7B model, layout not given", "40 %",
                          kPolicies[0].name, kPolicies[1].name, 100 * kMiB, 60 * kMiB}};
      trial.verdicts = sample_verdicts(trial);
      trial.story =
          "A gathered buffer is kept until the device is done with it. A reference held until the "
          "wait does the same at once.";
      report.trials.push_back(std::move(trial));
    }
  }
  return report;
}

}  // namespace tidemark
