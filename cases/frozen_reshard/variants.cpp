#include "cases/frozen_reshard/variants.h"

#include "cases/frozen_reshard/setup.h"
#include "harness/parallel/freezing.h"

namespace tidemark::frozen_reshard {
const VariantTable<Policy>& variants() {
  using enum FrozenReshard;
  static const VariantTable<Policy> all{{
      {{"never", Role::baseline,
        "frozen units that backward has gathered stay whole through the optimizer into the next "
        "forward"},
       {.frozen = never}},
      {{"late", Role::baseline,
        "everything frozen is resharded at the very end of backward: the calls and the numbers of "
        "a fix, the peak of the waste"},
       {.frozen = end}},
      {{"multi_grad_hook", Role::fixed,
        "a frozen unit is resharded when the gradients of all its inputs have been computed; a "
        "catch-all at the end of backward takes the units whose inputs need none"},
       {.frozen = input_hooks}},
      {{"input_node", Role::fixed,
        "the same by an identity node on the input, which runs before the hooks of the unit before "
        "gather that one: a unit less at that moment (as FSDP2)"},
       {.frozen = input_node}},
      {{"will_execute", Role::fixed,
        "hooks that count only the gradients this backward computes; right where no microbatches "
        "in flight share an input"},
       {.frozen = will_execute}},
      {{"will_execute_shared", Role::control,
        "the same where two microbatches in flight share an input: the second one's hooks fire in "
        "the first one's backward, before the unit's own use",
        "failure/"},
       {.frozen = will_execute,
        .needs =
            {{"microbatches", 2}, {"in_flight", 1}, {"shared_input", 1}, {"input_gradient", 1}}}},
      {{"late_as_fix", Role::control, "late, offered as the fix: only the trajectory tells",
        "trajectory/"},
       {.frozen = end, .needs = {{"input_gradient", 1}}}},
      {{"early", Role::control,
        "frozen units are resharded in the pre-backward hook, before their input's gradient",
        "failure/"},
       {.frozen = before_use, .needs = {{"input_gradient", 1}}}},
      {{"root_sync_flag", Role::control,
        "the end of backward asks the root whether gradients were reduced: units under no_sync "
        "lose theirs",
        "parity/"},
       {.root_decides_sync = true}},
      {{"stale_full_param", Role::control,
        "a trainable unit is gathered again after its backward and not freed: the next forward "
        "computes with the weights from before the optimizer",
        "parity/"},
       {.stays_regathered = true}},
      {{"handles_kept", Role::control,
        "hooks of inputs that outlive the step are not removed: they pile up, step after step",
        "calls/hook"},
       {.remove_hooks = false, .needs = {{"shared_input", 1}}}},
      {{"catch_all_misses", Role::control,
        "without resharding after forward, the catch-all takes units that backward never reaches "
        "for resharded: they stay whole for ever",
        "rest/frozen"},
       {.catch_all_misses = true,
        .needs = {{"reshard_after_forward", 0},
                  {"input_gradient", 0},
                  {"shared_input", 0},
                  {"pattern", static_cast<std::int64_t>(FreezingPattern::prefix)},
                  {"thaw_step", 0}}}},
  }};
  return all;
}

std::string leave_out(const Trial& trial, const Variant& variant) {
  const auto setup = setup_of(trial, variants()[variant.name]);
  const bool several = setup.microbatches > 1;
  if (setup.rows == 0) {
    return "needs " + std::to_string(setup.microbatches) +
           " microbatches, for which batch=" + std::to_string(trial["batch"]) + " has too few rows";
  }
  if (variant.name == "will_execute" && several && setup.in_flight && setup.shared_input)
    return "is wrong where microbatches in flight share an input: will_execute_shared shows it";
  if (variant.name == "root_sync_flag" &&
      !(several && trial["no_sync"] == static_cast<std::int64_t>(NoSync::every_second)))
    return "is right unless some units are under no_sync (microbatches=2 "
           "no_sync=every_second_unit)";
  if ((variant.name == "stale_full_param" || variant.name == "handles_kept") && trial.steps < 2)
    return "shows in the second step";
  return "";
}

}  // namespace tidemark::frozen_reshard
