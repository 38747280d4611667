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
  if (first || !splits) return t;
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

}  // namespace tidemark::reference
