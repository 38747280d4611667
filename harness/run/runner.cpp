#include "harness/run/runner.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/device/platform.h"
#include "harness/judge/gradients.h"
#include "harness/judge/judge.h"
#include "harness/judge/saving.h"
#include "harness/ranks/flight_recorder.h"
#include "harness/record/verdict_kind.h"
#include "harness/run/explore.h"
#include "harness/run/gather.h"
#include "harness/run/variant.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

std::string reason_to_skip(const Scenario& scenario, const Trial& trial, const Variant& variant) {
  if (variant.caught_by.starts_with("race/") &&
      (virtual_device() == nullptr || !virtual_device()->detects_races()))
    return virtual_device() != nullptr
               ? "race detection is switched off (--races on)"
               : "needs the race detector, which only the virtual device has";
  return scenario.leave_out ? scenario.leave_out(trial, variant) : "";
}

// Removes the details of a rank that is not the worst and has no races.
void leave_out_details(RankRecord& record, World& world) {
  if (record.rank == worst_rank(record, world) || !record.races.empty()) return;
  record.memory.clear();
  record.spans = {};
}

// Compares the gradients of every variant that ran with those of the first baseline that ran.
void compare_gradients(const std::vector<RankResult>& all, const Oracle& oracle,
                       TrialRecord& record) {
  const auto baseline = std::ranges::find_if(all, [](const RankResult& seen) {
    return seen.variant->role == Role::baseline && seen.ran();
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].ran()) continue;
    const bool compares = baseline != all.end() && &*baseline != &all[i];
    record.variants[i].gradients =
        gradient_errors(all[i].numbers.gradients, compares ? &baseline->numbers.gradients : nullptr,
                        oracle.gradients);
  }
}

// A trial on this rank: what its passes hand on. `seen` and `record.variants` have the same order.
struct OwnTrial {
  struct Given {
    const Scenario& scenario;
    const Trial& trial;
    World& world;
    const RunOptions& options;
  } given;
  TrialRecord record;
  std::vector<RankResult> seen;
};

// The text that a rank adds to the error if its variant ended early.
std::string circumstances(const OwnTrial& own, const Variant& variant) {
  const std::string explained = own.given.options.explain ? own.given.options.explain(variant) : "";
  return flight::here() + (explained.empty() ? "" : "; " + explained);
}

// A variant that ended early keeps nothing but its error.
void broke_off(const OwnTrial& own, const Variant& variant, std::vector<RankError> errors,
               RankResult& seen, VariantRecord& record) {
  const std::string error = errors_text(errors);
  record = {.name = variant.name, .role = variant.role, .error = error, .what = variant.what};
  record.errors = std::move(errors);
  seen = {.variant = &variant, .error = error};
  seen.record.rank = own.given.world.rank();
}

// The first pass: every selected variant runs, to a record of this rank.
void run_variants(OwnTrial& own) {
  const auto& [scenario, trial, world, options] = own.given;
  for (const auto& variant : scenario.variants) {
    if (options.selected && !options.selected(variant)) continue;
    if (options.progress && world.leads()) options.progress(own.record.name() + " " + variant.name);
    VariantRecord mine{.name = variant.name, .role = variant.role, .what = variant.what};
    RankResult seen{.variant = &variant};
    seen.record.rank = world.rank();
    seen.skipped = reason_to_skip(scenario, trial, variant);
    if (seen.skipped.empty()) {
      const Recording recording{.details = options.details != Details::none,
                                .every_event = static_cast<bool>(options.events)};
      auto errors = attempt(
          world,
          [&] {
            VariantRun run = run_recorded(scenario, trial, variant, world, recording);
            seen = std::move(run.seen);
            mine.loss = std::move(run.loss);
            // The other schedules of the virtual device have no GPU's clock: what they do depends
            // on the host alone.
            if (trial.schedule == "calibrated" || real_gpu() != nullptr)
              mine.step_time_ns = std::move(run.step_time_ns);
            if (options.events) options.events(variant, seen.record);
            seen.record.events.clear();
          },
          [&] { return circumstances(own, variant); });
      if (!errors.empty()) {
        broke_off(own, variant, std::move(errors), seen, mine);
      } else {
        if (options.details == Details::worst) leave_out_details(seen.record, world);
        mine.ranks.push_back(seen.record);
      }
    }
    if (options.ended) options.ended(mine);
    own.seen.push_back(std::move(seen));
    own.record.variants.push_back(std::move(mine));
  }
}

// The second pass: curves of the variants that ran. Its verdicts are those of growth.
std::vector<Verdict> explore_variants(OwnTrial& own) {
  const auto& [scenario, trial, world, options] = own.given;
  std::vector<const Variant*> selected;
  for (const RankResult& seen : own.seen) selected.push_back(seen.variant);
  const Exploration all =
      applicable(scenario, trial, world.rank(), selected, {options.run_ahead, options.growth});
  std::vector<Verdict> verdicts;
  std::set<Role> drawn;  // the first baseline and the fix
  for (std::size_t i = 0; i < own.seen.size(); ++i) {
    RankResult& seen = own.seen[i];
    const Variant& variant = *seen.variant;
    if (!seen.ran() || variant.role == Role::control) continue;
    Exploration here = all;
    const bool other_fix = variant.role == Role::fixed && !scenario.drawn_fix.empty() &&
                           variant.name != scenario.drawn_fix;
    here.growth = all.growth && !other_fix && drawn.insert(variant.role).second;
    auto errors = attempt(
        world,
        [&] {
          explore(scenario, trial, variant, seen.record, world, here, own.record.variants[i],
                  verdicts);
        },
        [&] { return circumstances(own, variant); });
    if (!errors.empty()) broke_off(own, variant, std::move(errors), seen, own.record.variants[i]);
  }
  return verdicts;
}

// Sends values of rank 0 to every rank, as raw bytes.
class Sender {
 public:
  explicit Sender(World& world) : world_(world) {}
  void send(std::string& text) const { text = world_.broadcast(text); }
  void send(std::vector<double>& values) const {
    const std::string bytes = world_.broadcast(
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)));
    values.resize(bytes.size() / sizeof(double));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(values.data()));
  }
  void send(std::vector<Shard>& shards) const {
    std::vector<double> count{static_cast<double>(shards.size())};
    send(count);
    shards.resize(static_cast<std::size_t>(count[0]));
    for (Shard& shard : shards) {
      send(shard.name);
      std::vector<double> values, sizes;
      if (world_.leads()) {
        const at::Tensor flat = shard.values.to(at::kDouble).contiguous().reshape({-1});
        values.assign(flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
        for (auto size : shard.values.sizes()) sizes.push_back(static_cast<double>(size));
      }
      send(values);
      send(sizes);
      shard.values = at::tensor(values, at::kDouble)
                         .reshape(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
    }
  }

 private:
  World& world_;
};

// The reference's numbers, on every rank: computed once.
Oracle shared_oracle(const Scenario& scenario, const Trial& trial, World& world) {
  Oracle oracle;
  if (world.leads()) oracle = scenario.reference(trial);
  const Sender sender(world);
  for (auto* values : {&oracle.loss, &oracle.loss_tolerance, &oracle.gradient_tolerance,
                       &oracle.parameter_tolerance, &oracle.plain_parameter_tolerance})
    sender.send(*values);
  for (auto* shards : {&oracle.gradients, &oracle.parameters, &oracle.parameter_scales})
    sender.send(*shards);
  sender.send(oracle.why);
  return oracle;
}

// Elements of the reference's tensors of which some rank has the value; each counts once.
std::int64_t held(const std::vector<Shard>& mine, const std::vector<Shard>& reference,
                  World& world) {
  std::string parts;
  for (const Shard& part : mine)
    if (const Shard* whole = covering(reference, part); whole != nullptr)
      parts += fmt::format("{} {} {}\n", whole - reference.data(), part.offset,
                           part.offset + part.values.numel());
  std::set<std::array<std::int64_t, 3>> all;
  for (const std::string& text : world.gather(parts)) {  // on rank 0
    TextIn lines(text);
    for (std::array<std::int64_t, 3> part{}; lines >> part[0] >> part[1] >> part[2];)
      all.insert(part);
  }
  std::int64_t count = 0, tensor = -1, end = 0;
  for (const auto& [of, from, to] : all) {
    if (of != tensor) tensor = of, end = 0;
    count += std::max<std::int64_t>(0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return std::stoll(world.broadcast(std::to_string(count)));
}

// The third pass: verdicts on this rank's record.
std::vector<Verdict> judge_variants(OwnTrial& own) {
  const auto& [scenario, trial, world, options] = own.given;
  if (trial.mode != Mode::math) return judge(scenario, trial, own.seen, nullptr);
  const Oracle oracle = shared_oracle(scenario, trial, world);
  compare_gradients(own.seen, oracle, own.record);
  for (RankResult& seen : own.seen) {
    if (!seen.ran()) continue;
    seen.held_gradients = held(seen.numbers.gradients, oracle.gradients, world);
    seen.held_parameters = held(seen.numbers.parameters, oracle.parameters, world);
  }
  for (const RankResult& seen : own.seen)
    if (options.numbers && seen.ran()) options.numbers(*seen.variant, seen.numbers, oracle);
  return judge(scenario, trial, own.seen, &oracle);
}

}  // namespace

TrialRecord record_of(const Scenario& scenario, const Trial& t) {
  TrialRecord record{t.scenario, t.size,  t.schedule, t.mode,
                     t.ranks,    t.steps, t.seed,     settings_of(scenario, t.params)};
  record.story = scenario.story;
  record.kept = scenario.kept;
  record.seen = scenario.seen;
  record.statistic = scenario.statistic;
  return record;
}

TrialRecord run_trial(const Scenario& scenario, const Trial& trial, World& world,
                      const RunOptions& options) {
  OwnTrial own{{scenario, trial, world, options}, record_of(scenario, trial), {}};
  run_variants(own);
  std::vector<Verdict> of_growth = explore_variants(own);
  release_device();  // the next trial may set a smaller capacity
  own.record.verdicts = judge_variants(own);
  std::ranges::move(of_growth, std::back_inserter(own.record.verdicts));
  for (const Verdict& verdict : own.record.verdicts)
    if (verdict.name != "run" && kind_of(verdict) == VerdictKind::other)
      throw std::logic_error("verdict '" + verdict.name + "' of " + scenario.name +
                             " is of no kind that harness/record/verdict_kind.h has");
  TrialRecord record = gather(std::move(own.record), world);
  if (world.leads()) {
    record.symbols = symbols_of(scenario, trial, world.rank());
    std::ranges::move(step_savings(scenario, trial, record), std::back_inserter(record.verdicts));
    record.published = published_figures(scenario, trial, record);
  }
  return record;
}

}  // namespace tidemark
