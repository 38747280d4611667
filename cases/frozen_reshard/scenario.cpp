// A frozen parameter has no gradient, hence no hook that says when backward is done with it: what
// was gathered for its input's gradient stays whole, unit after unit, until the end of backward or
// beyond. Needless: once the gradient of a unit's input is there, nothing reads its parameters.
// Seen in fairscale's and PyTorch's FSDP (reshard of frozen parameters in backward).
#include "harness/scenario.h"

#include "cases/frozen_reshard/closed_forms.h"
#include "cases/frozen_reshard/forms.h"
#include "cases/frozen_reshard/inspect.h"
#include "cases/frozen_reshard/program.h"
#include "cases/frozen_reshard/reference.h"
#include "harness/ranks/world.h"

namespace tidemark {

Scenario frozen_reshard_scenario() {
  using namespace frozen_reshard;
  Scenario s;
  s.name = "frozen_reshard";
  s.title = "resharding frozen parameters in backward";
  s.story =
      "Fully sharded units are gathered again in backward, frozen ones too where their input's "
      "gradient needs them. The hook that frees a unit hangs on its parameters' gradients, which "
      "a frozen unit does not have: all of them pile up through backward, although each is done "
      "as soon as the gradient of its input is.";
  s.parameters = {
      {"layers", "linear layers, one sharded unit each", 2, 512, true},
      {"hidden", "width of every layer", 1, 65536, true},
      {"batch", "rows of a step over all ranks and microbatches", 1, 2048, true},
      {.name = "pattern",
       .what = "the frozen layers; adapters: all of them, with trained adapters beside them",
       .low = 0,
       .high = 6,
       .values = {"even", "all_but_last", "adapters", "first_half", "last_half", "all_but_first",
                  "odd"}},
      {"adapter_rank", "inner width of the adapters (pattern=adapters)", 1, 4096},
      {"reshard_after_forward", "no: parameters stay gathered from forward to backward", 0, 1,
       false, kSwitch},
      {"microbatches", "forwards and backwards of a step", 1, 8},
      {"in_flight", "yes: all forwards of a step come before its backwards", 0, 1, false, kSwitch},
      {.name = "no_sync",
       .what = "backwards in which gradients are not reduced: none; all but the last one; all but "
               "the last one for every second trained unit",
       .low = 0,
       .high = 2,
       .values = {"none", "all_but_last", "every_second_unit"}},
      {"input_gradient", "yes: the input requires a gradient", 0, 1, false, kSwitch},
      {"shared_input", "yes: every layer adds an input that all microbatches share", 0, 1, false,
       kSwitch},
      {"thaw_step",
       "from this step on the first frozen unit is trained and the first trained one frozen; 0: "
       "never",
       0, 1000},
      {"precision", "of parameters and activations", 0, 1, false, {"fp32", "bf16"}}};
  const Params common{{"pattern", 0},        {"adapter_rank", 16}, {"reshard_after_forward", 1},
                      {"microbatches", 1},   {"in_flight", 0},     {"no_sync", 0},
                      {"input_gradient", 1}, {"shared_input", 0},  {"thaw_step", 0},
                      {"precision", 0}};
  const auto size = [&](Params own) {
    own.insert(common.begin(), common.end());
    return own;
  };
  s.sizes = {
      // As the seed's test, wide enough that a unit is more than a granule; every other unit under
      // no_sync.
      {"smoke",
       size({{"layers", 6}, {"hidden", 160}, {"batch", 32}, {"microbatches", 2}, {"no_sync", 2}}),
       {Mode::math, Mode::shapes}},
      // The same with two units of each kind: for losses over a hundred steps.
      {"losses",
       size({{"layers", 4}, {"hidden", 160}, {"batch", 32}, {"microbatches", 2}, {"no_sync", 2}}),
       {Mode::math, Mode::shapes}},
      {"seed_test",
       size({{"layers", 6}, {"hidden", 5}, {"batch", 16}, {"adapter_rank", 2}}),
       {Mode::math, Mode::shapes}},
      // LoRA on a 7B: 26 units of 268 million parameters. A width that 2, 4 and 8 ranks divide into
      // whole MiB, so that no block keeps a remainder and every statistic has a form.
      {"seed",
       size({{"layers", 26},
             {"hidden", 16384},
             {"batch", 2048},
             {"pattern", 2},
             {"input_gradient", 0},
             {"precision", 1}}),
       {Mode::shapes}},
      // LoRA on a 70B: 64 units of 1.07 billion parameters, divisible as the seed's up to 64 ranks.
      {"scale",
       size({{"layers", 64},
             {"hidden", 32768},
             {"batch", 2048},
             {"pattern", 2},
             {"input_gradient", 0},
             {"precision", 1}}),
       {Mode::shapes},
       true}};
  s.variants = variants().list();
  s.unfit = [](const Trial& trial) -> std::string {
    if (trial["thaw_step"] > 0 && trial["thaw_step"] == trial.steps - 1) {
      return "the last step is the one that thaws, and makes optimizer state that is not at rest "
             "yet; set another thaw_step or more steps";
    }
    const auto needed = trial.ranks * trial["microbatches"];
    if (trial["batch"] < needed) {
      return "a batch of " + std::to_string(trial["batch"]) + " rows gives nothing to some of " +
             std::to_string(trial["microbatches"]) + " microbatches on " +
             std::to_string(trial.ranks) + " ranks; set batch=" + std::to_string(needed) +
             " or more";
    }
    return "";
  };
  s.leave_out = leave_out;
  s.make = [](const Trial& trial, const Variant& variant,
              World& world) -> std::unique_ptr<Program> {
    return std::make_unique<Training>(trial, variants()[variant.name], world);
  };
  s.forms = forms;
  s.replay = replay;
  s.symbols = symbols();
  s.inspect = inspect;
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
