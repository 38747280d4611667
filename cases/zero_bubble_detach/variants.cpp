#include "cases/zero_bubble_detach/variants.h"

namespace tidemark::zero_bubble_detach {
const VariantTable<StagePolicy>& variants() {
  // What the four changes do together; what goes further starts here, and so do the wrong ones.
  static constexpr StagePolicy kAll{
      .detach_outputs = true, .detach_loss = true, .detach_last = true, .clean_hooks = true};
  static const auto with = [](bool StagePolicy::*flag) {
    StagePolicy policy = kAll;
    policy.*flag = true;
    return policy;
  };
  static const VariantTable<StagePolicy> all{{
      {{"retained", Role::baseline,
        "nothing is dropped before the step ends, and then everything is, cycles too: the mildest "
        "reading of PyTorch 2.5.1"},
       {}},
      {{"as_released", Role::baseline,
        "PyTorch 2.5.1 while Python's garbage collector does not run: outputs stay until the next "
        "step begins, cycles for ever, so memory grows with every step"},
       {.never_collects = true, .outputs_stay = true, .backward_cycle = true}},
      {{"detach_outputs", Role::fixed,
        "outputs are detached after the input pass (not the last stage's); the hooks' cycles still "
        "keep the graph"},
       {.detach_outputs = true}},
      {{"detach_outputs_loss", Role::fixed, "the loss too: the log-probabilities go at once"},
       {.detach_outputs = true, .detach_loss = true}},
      {{"detach_stage_outputs", Role::fixed,
        "the last stage's outputs too, which are merged and returned"},
       {.detach_outputs = true, .detach_loss = true, .detach_last = true}},
      {{"detach_last_alone", Role::fixed,
        "the last stage's outputs alone: its loss keeps the graph"},
       {.detach_last = true}},
      {{"hooks_alone", Role::fixed,
        "captured gradients and hooks go right after use, nothing is detached"},
       {.clean_hooks = true}},
      {{"hooks_detach_outputs_loss", Role::fixed,
        "hooks cleaned, outputs and loss detached: the last stage's outputs keep its graph"},
       {.detach_outputs = true, .detach_loss = true, .clean_hooks = true}},
      {{"hooks_detach_last", Role::fixed,
        "hooks cleaned, the last stage's outputs detached: every other root keeps its graph"},
       {.detach_last = true, .clean_hooks = true}},
      {{"drop_grads_hooks", Role::fixed,
        "everything is detached, and captured gradients and hooks go right after use: no cycle is "
        "left, so the graph goes with the weight pass"},
       kAll},
      {{"release_after_input", Role::fixed,
        "the input pass also lets go what only it has read, so that less waits for the weight "
        "pass"},
       with(&StagePolicy::release)},
      {{"one_weight_task", Role::fixed,
        "all groups of a block share one run of the engine: a checkpointed block is run again "
        "once, "
        "not once a group"},
       with(&StagePolicy::one_weight_task)},
      {{"gradient_edge", Role::fixed,
        "the backward begins at a gradient edge, so an output goes as soon as it is sent"},
       with(&StagePolicy::roots_as_edges)},
      {{"detach_view", Role::control,
        "the output is a view, which cannot be detached in place: skipped, it keeps its graph",
        "trajectory/"},
       with(&StagePolicy::returns_view)},
      {{"detach_copy_kept", Role::control,
        "a detached copy is returned, and the original stays in its list", "trajectory/"},
       with(&StagePolicy::keeps_undetached)},
      {{"hook_cycle", Role::control,
        "hooks refer to their groups for ever, and the cycles are never collected", "rest/"},
       {.detach_outputs = true, .detach_loss = true, .detach_last = true, .never_collects = true}},
      {{"detach_before_input", Role::control,
        "detached before the input pass: no gradient reaches the stage before", "parity/"},
       with(&StagePolicy::detach_early)},
  }};
  return all;
}

}  // namespace tidemark::zero_bubble_detach
