// A frozen parameter has no gradient, hence no hook that says when backward is done with it: what
// was gathered for its input's gradient stays whole, unit after unit, until the end of backward or
// beyond. Needless: once the gradient of a unit's input is there, nothing reads its parameters.
// Seen in fairscale's and PyTorch's FSDP (reshard of frozen parameters in backward).
#include "harness/scenario.h"

#include <algorithm>
#include <set>

#include "cases/frozen_reshard/policy.h"
#include "cases/numbers.h"
#include "harness/judge/counts.h"

namespace tidemark {
namespace frozen_reshard {

const VariantTable<Policy>& variants() {
  using enum FrozenReshard;
  static const VariantTable<Policy> all{{
      {{"never", Role::baseline,
        "frozen units that backward has gathered stay whole through the optimizer into the next "
        "forward"},
       {{.frozen = never}}},
      {{"late", Role::baseline,
        "all frozen units are resharded at the end of backward: calls and numbers are those of a "
        "fix, the peak is that of the waste"},
       {{.frozen = end}}},
      {{"multi_grad_hook", Role::fixed,
        "a frozen unit is resharded when the gradients of all its inputs have been computed; a "
        "catch-all at the end of backward takes the units whose inputs need none"},
       {}},
      {{"input_node", Role::fixed,
        "the same by an identity node on the input, which runs before the hooks of the unit before "
        "gather that one: a unit less at that moment (as FSDP2)"},
       {{.frozen = input_node}}},
      {{"will_execute", Role::fixed,
        "hooks that count only the gradients this backward computes; right where no microbatches "
        "in flight share an input"},
       {{.frozen = will_execute}}},
      {{"replicated", Role::fixed,
        "frozen units are not sharded, as under DDP: nothing is gathered that could stay whole, "
        "and every rank keeps all of them all the time"},
       {{.frozen = replicated}}},
      {{"will_execute_shared", Role::control,
        "the same where two microbatches in flight share an input: the second one's hooks fire in "
        "the first one's backward, before the unit's own use",
        "failure/"},
       {.sharding = {.frozen = will_execute},
        .needs =
            {{"microbatches", 2}, {"in_flight", 1}, {"shared_input", 1}, {"input_gradient", 1}}}},
      {{"late_as_fix", Role::control,
        "`late` declared as a fix: only the trajectory shows the waste", "trajectory/"},
       {.sharding = {.frozen = end}, .needs = {{"input_gradient", 1}}}},
      {{"early", Role::control,
        "frozen units are resharded in the pre-backward hook, before their input's gradient",
        "failure/"},
       {.sharding = {.frozen = before_use}, .needs = {{"input_gradient", 1}}}},
      {{"root_sync_flag", Role::control,
        "the end of backward asks the root whether gradients were reduced: units under no_sync "
        "lose theirs",
        "parity/"},
       {{.frozen = input_hooks, .root_decides_sync = true}}},
      {{"stale_full_param", Role::control,
        "the last trained unit is gathered again after its backward and not freed: the next "
        "forward computes with the weights from before the optimizer",
        "parity/"},
       {{.frozen = input_hooks, .free_regathered = false}}},
      {{"handles_kept", Role::control,
        "hooks of inputs that outlive the step are not removed: they pile up, step after step",
        "calls/hook"},
       {.sharding = {.frozen = input_hooks, .remove_hooks = false},
        .needs = {{"shared_input", 1}}}},
      {{"catch_all_misses", Role::control,
        "without resharding after forward, the catch-all takes units that backward never reaches "
        "for resharded: they stay whole for ever",
        "rest/frozen"},
       {.sharding = {.frozen = input_hooks, .catch_all_misses = true},
        .needs = {{"reshard_after_forward", 0},
                  {"input_gradient", 0},
                  {"shared_input", 0},
                  {"pattern", static_cast<std::int64_t>(FreezingPattern::prefix)},
                  {"thaw_step", 0}}}},
  }};
  return all;
}

Policy claim_of(const Variant& variant) {
  auto policy = variants()[variant.name];
  if (variant.role != Role::control) return policy;
  return {.needs = policy.needs};
}

Setup setup_of(const Trial& trial, const Policy& policy, int rank) {
  const auto value = [&](const char* name) {
    const auto own = policy.needs.find(name);
    return own == policy.needs.end() ? trial[name] : own->second;
  };
  const auto microbatches = std::max(value("microbatches"), trial["microbatches"]);
  const auto pattern = static_cast<FreezingPattern>(value("pattern"));
  Setup setup{.layers = value("layers"),
              .hidden = value("hidden"),
              .adapter_rank = has_adapters(pattern) ? value("adapter_rank") : 0,
              .nested = pattern == FreezingPattern::nested_adapters,
              .mixed = pattern == FreezingPattern::mixed,
              .microbatches = microbatches,
              .rows = value("batch") / trial.ranks / microbatches,
              .in_flight = value("in_flight") != 0,
              .input_gradient = value("input_gradient") != 0,
              .shared_input = value("shared_input") != 0,
              .ranks = trial.ranks,
              .rank = rank,
              .instant = trial.schedule != "lagging",
              .sharding = policy.sharding,
              .steps = {}};
  auto& sharding = setup.sharding;
  const bool flat = value("layout") != 0;
  sharding.layout = flat ? GatherLayout::flat : GatherLayout::separate_streams;
  sharding.in_flight_limit = flat ? 2 : 0;  // FSDP1's limit_all_gathers
  sharding.backward_prefetch = value("backward_prefetch") != 0;
  sharding.reshard_after_forward = value("reshard_after_forward") != 0;
  sharding.stored = sharding.gathered = sharding.reduced = value("precision") == 0 ? 4 : 2;
  const auto thaw_step = value("thaw_step");
  for (int i = 0; i < trial.steps; ++i) {
    auto& step = setup.steps.emplace_back();
    step.frozen = frozen_units(pattern, setup.layers);
    if (thaw_step > 0 && i >= thaw_step) thaw(step.frozen);
    for (std::int64_t m = 1; m <= microbatches; ++m)
      step.synced.push_back(synced_units(step.frozen, static_cast<NoSync>(value("no_sync")),
                                         /*last=*/m == microbatches));
  }
  return setup;
}

std::int64_t resharded_late(const std::vector<Call>& calls, const std::vector<bool>& frozen,
                            bool nested) {
  std::set<std::size_t> whole;                // frozen, since its backward began
  const std::size_t behind = nested ? 3 : 2;  // a layer's backward begins before its adapter's
  std::int64_t late = 0;
  for (const auto& call : calls) {
    if (call.op == "end of backward") {
      late += std::ssize(whole);
      whole.clear();
    }
    if (call.unit == "step") continue;
    const auto k = std::stoul(call.unit.substr(5));
    if (call.op == "reshard") whole.erase(k);
    if (call.op != "backward") continue;
    const auto left = std::erase_if(whole, [&](auto i) { return i >= k + behind; });
    late += static_cast<std::int64_t>(left);
    if (frozen[k]) whole.insert(k);
  }
  return late;
}

bool waits_for_clock(const Trial& trial) { return trial["layout"] != 0 && trial.has_clock(); }

namespace {

std::string leave_out(const Trial& trial, const Variant& variant) {
  const auto setup = setup_of(trial, variants()[variant.name]);
  const bool several = setup.microbatches > 1;
  if (setup.flat() && several && setup.in_flight)
    return "needs several microbatches in flight, which layout=flat does not have";
  if (setup.rows == 0)
    return "needs " + std::to_string(setup.microbatches) +
           " microbatches, for which batch=" + std::to_string(trial["batch"]) + " has too few rows";
  if (variant.name == "will_execute" && several && setup.in_flight && setup.shared_input)
    return "is wrong where microbatches in flight share an input: will_execute_shared shows it";
  if (setup.sharding.replicates_frozen() && trial["thaw_step"] > 0)
    return "needs units that stay frozen, which thaw_step=" + std::to_string(trial["thaw_step"]) +
           " does not leave";
  if (variant.name == "root_sync_flag" &&
      !(several && trial["no_sync"] == static_cast<std::int64_t>(NoSync::every_second)))
    return "is right unless some units are under no_sync (microbatches=2 "
           "no_sync=every_second_unit)";
  if ((variant.name == "stale_full_param" || variant.name == "handles_kept") && trial.steps < 2)
    return "shows in the second step";
  return "";
}

std::string unseen(const Trial& trial, const Variant& variant, int) {
  const bool by_bytes =
      variant.caught_by == "rest/frozen" || variant.caught_by.starts_with("trajectory/");
  return waits_for_clock(trial) && by_bytes ? "where freed blocks wait for a clock, its bytes are "
                                              "claimed within bounds or not at all"
                                            : "";
}

std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  if (record.steps.empty()) return {};
  const auto setup = setup_of(trial, claim_of(variant), record.rank);
  const auto& expected = planned(trial, variant, record.rank);
  std::vector<Call> planned;
  for (const auto& [op, unit] : expected.calls) planned.push_back({op, unit});
  const auto& calls = record.steps.back().calls;
  std::vector<Verdict> verdicts;
  for (const char* op : {"unshard", "reshard", "reduce", "hook"})
    verdicts.push_back(counted(std::string("calls/") + op, times(planned, op), times(calls, op),
                               "calls", "as many as in the plan"));
  verdicts.push_back(in_order("calls/order", planned, calls, "calls that differ from the plan's"));

  // The waste, as the baselines' order has it, is part of what they are.
  const auto& frozen = setup.steps.back().frozen;
  const bool wastes = variant.role == Role::baseline;
  // The output of a nested adapter's layer needs a gradient even where its input does not: then its
  // unit is gathered, and nothing tells that its backward is over.
  const bool untold = setup.nested && frozen[0] && !setup.sharding.replicates_frozen() &&
                      !setup.input_gradient && !setup.shared_input;
  verdicts.push_back(
      counted("order/resharded_late",
              wastes ? resharded_late(planned, frozen, setup.nested) : untold * setup.microbatches,
              resharded_late(calls, frozen, setup.nested), "units",
              "frozen units still whole when the backward of the unit two before "
              "begins, or at the end of backward"));

  const auto left = record.categories.find(MemoryKind::gathered_frozen_parameters);
  if (!waits_for_clock(trial) && (expected.frozen_bytes == 0 || unfollowed_settings().empty()))
    verdicts.push_back(counted("rest/frozen", expected.frozen_bytes,
                               left == record.categories.end() ? 0 : left->second.end, "bytes",
                               "frozen units that the policy keeps whole between steps"));

  std::int64_t used = 0;
  for (const auto& step : record.steps) used += times(step.calls, "freed parameter used");
  verdicts.push_back(counted("failure/freed_parameter", 0, used, "times",
                             "backward reads a parameter that has been freed"));
  return verdicts;
}

}  // namespace
}  // namespace frozen_reshard

Scenario frozen_reshard_scenario() {
  using namespace frozen_reshard;
  Scenario s;
  s.name = "frozen_reshard";
  s.title = "resharding frozen parameters in backward";
  s.kept = "whole after their last use in backward";
  s.seen = {pull_request("facebookresearch/fairscale", 1159,
                         "a hook on the gradients of the inputs reshards frozen parameters in "
                         "backward; two further bugs, and a test that the end of backward passes"),
            pull_request("facebookresearch/fairscale", 1166,
                         "the same hook counted the gradients that this backward computes"),
            pull_request("pytorch/pytorch", 101982, "the hook in PyTorch's FSDP1"),
            issue("pytorch/pytorch", 95805,
                  "FSDP1 with 99 % of the parameters frozen: memory grows with every block of "
                  "backward")};
  s.story =
      "Fully sharded units are gathered again in backward, frozen ones too where their input's "
      "gradient needs them. The hook that frees a unit is attached to its parameters' gradients, "
      "which a frozen unit does not have. Frozen units therefore accumulate through backward, "
      "although each could be freed as soon as the gradient of its input is computed.";
  s.parameters = {
      {"layers", "linear layers, one sharded unit each", 2, 512, true},
      {"hidden", "width of every layer", 1, 65536, true},
      {"batch", "rows of a step over all ranks and microbatches", 1, 2048, true},
      choice("pattern",
             "the frozen layers; adapters: all of them, with trained adapters beside them; mixed: "
             "the even ones and, of two weights of every layer, the first; nested_adapters: "
             "adapters in units inside those of their layers",
             {"even", "all_but_last", "adapters", "first_half", "last_half", "all_but_first", "odd",
              "mixed", "nested_adapters"}),
      {"adapter_rank", "inner width of the adapters (of patterns with adapters)", 1, 4096},
      on_off("reshard_after_forward", "no: parameters stay gathered from forward to backward"),
      {"microbatches", "forwards and backwards of a step", 1, 8},
      on_off("in_flight", "yes: all forwards of a step come before its backwards"),
      choice("no_sync",
             "backwards in which gradients are not reduced: none; all but the last one; all but "
             "the last one for every second trained unit",
             {"none", "all_but_last", "every_second_unit"}),
      on_off("input_gradient", "yes: the input requires a gradient"),
      on_off("shared_input", "yes: every layer adds an input that all microbatches share"),
      {"thaw_step",
       "from this step on the first frozen unit is trained and the first trained one frozen; 0: "
       "never",
       0, 1000},
      choice("precision", "of parameters and activations", {"fp32", "bf16"}),
      choice("layout",
             "of a unit: each parameter by itself, copied out of a buffer (FSDP2); or one flat "
             "parameter, gathered in place, of which the weights are views (FSDP1)",
             {"per_parameter", "flat"}),
      on_off("backward_prefetch",
             "no: backward gathers each unit at its own turn, and none ahead")};
  const Params common{{"pattern", 0},        {"adapter_rank", 16}, {"reshard_after_forward", 1},
                      {"microbatches", 1},   {"in_flight", 0},     {"no_sync", 0},
                      {"input_gradient", 1}, {"shared_input", 0},  {"thaw_step", 0},
                      {"precision", 0},      {"layout", 0},        {"backward_prefetch", 1}};
  // As the seed's test, wide enough that a unit is more than a granule; every other unit under
  // no_sync.
  Params smoke{{"layers", 6}, {"hidden", 160}, {"batch", 32}, {"microbatches", 2}, {"no_sync", 2}};
  // Smoke with two units of each kind: for losses over a hundred steps.
  Params losses = smoke;
  losses["layers"] = 4;
  // Microbatches in flight share an input, and the model's own needs no gradient: the hooks of one
  // microbatch see the gradients of another (InputHooks::begin).
  Params shared = losses;
  shared["in_flight"] = shared["shared_input"] = 1;
  shared["input_gradient"] = 0;
  // Parameters stay gathered from forward to backward. In backward those of frozen units can be
  // freed too.
  Params kept_whole = smoke;
  kept_whole["reshard_after_forward"] = 0;
  // The unit test of the report.
  Params seed_test{{"layers", 6}, {"hidden", 5}, {"batch", 16}, {"adapter_rank", 2}};
  // LoRA on a 7B: 26 units of 268 million parameters. A width that 2, 4 and 8 ranks divide into
  // whole MiB, so that no block keeps a remainder and every statistic has a form.
  Params seed{{"layers", 26}, {"hidden", 16384},     {"batch", 2048},
              {"pattern", 2}, {"input_gradient", 0}, {"precision", 1}};
  // LoRA on a 70B: 64 units of 1.07 billion parameters, divisible as the seed's up to 64 ranks.
  Params scale = seed;
  scale["layers"] = 64;
  scale["hidden"] = 32768;
  for (Params* own : {&smoke, &losses, &shared, &kept_whole, &seed_test, &seed, &scale})
    own->insert(common.begin(), common.end());
  const std::vector<Mode> both{Mode::math, Mode::shapes};
  s.sizes = {{"smoke", smoke, both},
             {"losses", losses, both},
             {.name = "shared", .params = shared, .modes = both, .smoke = true},
             {.name = "kept_whole", .params = kept_whole, .modes = both, .nightly = true},
             {.name = "seed_test", .params = seed_test, .modes = both, .nightly = true},
             {"seed", seed, {Mode::shapes}},
             {"scale", scale, {Mode::shapes}, true}};
  variants().put_into(s, program);
  s.unfit = [](const Trial& trial) -> std::string {
    if (trial["thaw_step"] > 0 && trial["thaw_step"] == trial.steps - 1)
      return "the last step is the one that thaws, and makes optimizer state that is not at rest "
             "yet; set another thaw_step or more steps";
    if (trial["layout"] != 0 && trial["microbatches"] > 1 && trial["in_flight"] != 0)
      return "layout=flat: FSDP1's first backward of a step ends it for every unit, so that of a "
             "second forward finds nothing gathered; set in_flight=no or layout=per_parameter";
    if (trial["layout"] != 0 &&
        trial["pattern"] == static_cast<std::int64_t>(FreezingPattern::mixed))
      return "layout=flat: a flat parameter is frozen as a whole, and pattern=mixed freezes one of "
             "a unit's two weights; set another pattern or layout=per_parameter";
    // The size of a product of random matrices changes by about the root of layers / hidden on its
    // way through them, in powers of e.
    if (trial.mode == Mode::math && trial["layers"] > 8 * trial["hidden"])
      return "layers=" + std::to_string(trial["layers"]) +
             " hidden=" + std::to_string(trial["hidden"]) +
             ": so narrow and long a chain leaves next to nothing of its input, so numbers prove "
             "nothing; set a hidden of an eighth of the layers or more, or --mode shapes";
    if (const std::string narrow = why_too_narrow(trial); !narrow.empty()) return narrow;
    const auto needed = trial.ranks * trial["microbatches"];
    if (trial["batch"] < needed)
      return "a batch of " + std::to_string(trial["batch"]) + " rows gives nothing to some of " +
             std::to_string(trial["microbatches"]) + " microbatches on " +
             std::to_string(trial.ranks) + " ranks; set batch=" + std::to_string(needed) +
             " or more";
    return "";
  };
  s.leave_out = leave_out;
  s.forms = forms;
  s.formed = kFormed;
  s.replay = replay;
  s.symbols = symbols();
  s.unseen = unseen;
  s.inspect = inspect;
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
