#include "reference/language_model_plan.h"

#include "reference/attention_plan.h"

namespace tidemark::reference {

Terms unit_bytes(const MicrobatchShape& s) {
  const auto t = s.tokens, h = s.hidden, f = s.ffn, e = s.bf16 ? 2l : 4l;
  Terms units;
  const auto set = [&](const char* name, std::int64_t bytes) {
    units[name] = static_cast<double>(bytes);
  };
  set("x", t * h * e);
  if (s.transformer) {
    // Of what attention takes only that counts which it keeps, whatever the device.
    const AttentionPlan attention(
        {t / s.sequence, s.sequence, s.heads, s.kv_heads, h / s.heads, s.bf16}, 1);
    const auto read = attention.copies ? attention.queries : attention.keys;
    const auto random = s.bf16 ? 24 : 0;  // the dropout's state, which flash keeps on the device
    set("a_w", t * (3 * h + f) * e + 2 * t * 4);
    set("a_n", t * (2 * h + 3 * f) * e + 2 * read + attention.statistics + random);
    set("g", t * (4 * h + 2 * f) * e + 2 * attention.keys);
  } else {
    for (const char* one : {"a_w", "a_n", "g"}) set(one, t * f * e);
  }
  set("logits", t * s.vocabulary * e);
  set("logp", t * s.vocabulary * 4 + 4);
  set("head", t * 4);
  set("loss", 4);
  return units;
}

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
    t["head"] += 1;
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
