#include "reference/language_model_plan.h"

namespace tidemark::reference {

// What is returned when the step ends, graph apart.
Terms HeldStage::returned() const {
  if (last) return {{"logits", 1}, {"loss", 1}};
  return {{"x", roots_as_edges ? 0 : 1}};
}

Terms HeldStage::forwarded() const {
  Terms t = returned();
  t["x"] += blocks - 1 + (first ? 1 : 0);
  // The input is another stage's output, which that stage no longer keeps.
  if (input_stays && roots_as_edges) t["x"] += 1;
  t["a_w"] += blocks - again;
  t["a_n"] += blocks - again;
  if (last) {
    t["x"] += 2;  // the last block's output, the norm's output
    t["s"] += 1;
    t["logp"] += 1;
  }
  return t;
}

// What the input pass takes down.
void HeldStage::add_gradients(Terms& t) const {
  t["g"] += blocks;
  t["x"] += blocks - 1 + (last || output_stays ? 1 : 0);  // else a receive buffer
  if (last) {
    t["logits"] += 1;
    t["x"] += 1;
  }
}

Terms HeldStage::split() const {
  Terms t = forwarded();
  if (first) {  // nothing was done yet
    if (output_stays) t["x"] += 1;
    return t;
  }
  add_gradients(t);
  if (release) {
    t["a_n"] -= blocks - again;
    if (transformer) t["x"] += blocks - again;  // attention's output, which a parameter reads
  }
  if (last && !keeps_loss_graph()) t["logp"] -= 1;
  return t;
}

Terms HeldStage::done() const {
  Terms t = returned();
  if (first || !splits) {
    if (backward_cycle && output_stays) t["x"] += 1;  // the output's gradient
    return t;
  }
  const bool held_by_root = last ? !detach_last || !detach_loss : !detach_outputs;
  const bool graph = !clean_hooks || (held_by_root && !roots_as_edges);
  if (graph && !release) {
    t["a_n"] += blocks - again + again * runs_a_block;
    t["x"] += again_inner;
  }
  if (!clean_hooks) add_gradients(t);
  if (last && keeps_loss_graph()) t["logp"] += 1;
  return t;
}

Terms HeldStage::leaked() const {
  Terms t;
  if (first || !splits) {
    if (!backward_cycle) return t;
    // The root, and its gradient where that is in no receive buffer.
    if (last)
      t["loss"] = 1;
    else
      t["x"] = output_stays ? 2 : 1;
  } else if (never_collects) {
    t["a_n"] = blocks - again + again * runs_a_block;
    // Inputs of checkpointed blocks; the stage's own is held by its node in the graph in any case.
    t["x"] = again_inner + (input_leaks ? 1 : 0);
    add_gradients(t);
  }
  return t;
}

}  // namespace tidemark::reference
