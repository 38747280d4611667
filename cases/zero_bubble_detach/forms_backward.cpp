#include "cases/zero_bubble_detach/forms.h"

namespace tidemark::zero_bubble_detach {

// Backward in one go: what a node has saved goes when it has run.
void Passes::backward(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.last) {
    l_.take("loss");
    l_.open("logp");
    l_.take("wide");
    l_.drop("loss");  // the weight of all tokens
    l_.take("wide");
    l_.moment(where + ", loss: softmax");
    l_.drop("wide", 2);
    if (bf16_) l_.take("logits");
    l_.moment(where + ", loss: logits");
    if (bf16_)
      l_.drop("wide");
    else
      l_.drop("wide"), l_.take("logits");
    l_.take("x");
    gradient(stage, "w_v", where + ", head");
    l_.drop("logits");
    l_.drop("x");
    norm_backward(stage, false, floats_ ? 0 : 1, where + ", norm");
  }
  for (int block = static_cast<int>(held.blocks) - 1; block >= 0; --block)
    block_backward(stage, block, where + in_block(block));
  if (held.first) {
    embedding_backward(stage, where + ", embedding");
    l_.drop("x");
  } else if (stage.ends_at_input() && !held.keeps_input_gradient(true) &&
             !(held.keeps_sent_gradient() && stage.fresh)) {
    l_.drop("x");  // sent (where the last one stays, the one before), or in the place of another
  }
  if (held.last) l_.drop("loss");
  if (!held.last && held.output_stays && !held.policy.backward_cycle)
    l_.drop("x");  // the gradient it began with
  if (held.policy.roots_as_edges && held.input_stays) l_.drop("x");
  if (held.output_goes() && held.keeps_output()) l_.drop("x");
  if (stage.left) l_.drop("x");
  gradients_done(stage);
}

void Passes::embedding_backward(const Stage& stage, const std::string& where) {
  if (sorts_) {
    l_.add({{"idx", 3}, {"sort", 1}});  // tokens in order, where they were, and a range
    l_.moment(where + ": tokens sorted");
    l_.drop("sort");
    l_.add({{"idx", 1}, {"w_v", 1}, {"uniq", 1}});  // besides these two where each begins, and keys
    l_.moment(where + ": tokens told apart");
    l_.add({{"idx", 1}, {"uniq", 1}}, -1);
    l_.take("rows");
    l_.moment(where + ": rows summed");
    l_.add({{"idx", 3}, {"rows", 1}, {"w_v", 1}}, -1);
  }
  gradient(stage, "w_v", where);
}

// In: the gradient of its output, which its input's replaces.
void Passes::norm_backward(const Stage& stage, bool again, double inputs,
                           const std::string& where) {
  if (floats_) {
    l_.take("x");  // the other factor's gradient
    gradient(true, again, where, [&] { gradient(stage, "w_n", where); });
    l_.drop("x", 3);  // that, the gradient, the other factor
    l_.drop("s");
    norm_input(false, 0, where + "'s input");
    return l_.add({{"y", 1}, {"x", inputs}}, -1);
  }
  l_.take("x");
  gradient(stage, "w_n", where);
  l_.add({{"x", 1 + inputs}, {"s", 1}}, -1);
}

void Passes::block_backward(const Stage& stage, int block, const std::string& here) {
  const auto& held = stage.held;
  // The gradient of a stage's output is the caller's, and is not added to in place.
  const bool shared = block + 1 == static_cast<int>(held.blocks) && !held.last;
  const bool input = block > 0 || held.first;  // its input is the stage's own
  if (stage.again(block)) {
    run_again(here);
  } else {
    l_.open("a_w");
    l_.open("a_n");
  }
  // A node's input gradient added to one that is there; its weight's gradient `symbol` is, too.
  const auto added = [&](const std::string& symbol) {
    if (!shared) return l_.drop("x");
    const bool beside = !stage.fresh && !symbol.empty();
    if (beside) l_.take(symbol);
    l_.take("x");
    l_.moment(here + "sum of gradients");
    l_.drop("x");
    if (beside) l_.drop(symbol);
  };
  if (!transformer_) {
    l_.take("f");
    gradient(stage, "w_f", here + "fc2");
    l_.drop("f");
    l_.take("f");
    l_.moment(here + "gelu");
    l_.drop("f", 2);
    l_.take("x");
    gradient(stage, "w_f", here + "fc1");
    l_.drop("f");
    if (input) l_.drop("x");
    return added("w_f");
  }
  l_.take("f");
  gradient(stage, "w_f", here + "w2");
  l_.drop("f");
  l_.take("f", 2);
  l_.moment(here + "product of gate and up");
  l_.drop("f", 3);
  l_.take("x");
  gradient(stage, "w_f", here + "w3");
  l_.drop("f");
  l_.take("f");
  l_.moment(here + "silu");
  l_.drop("f", 2);
  l_.take("x");
  gradient(stage, "w_f", here + "w1");
  l_.add({{"x", 2}, {"f", 1}}, -1);
  norm_backward(stage, stage.again(block), floats_ ? 0 : 1, here + "ffn_norm");
  added(floats_ ? "" : "w_n");
  l_.take("x");
  gradient(stage, "w_q", here + "wo");
  attention_backward(here);
  l_.add(attention_saved(), -1);
  l_.drop("x");
  for (int i = 0; repeats_ && i < 2; ++i) {
    l_.take("k");
    l_.moment(here + "summed over the repeats");
    l_.drop("x");
  }
  l_.take("x");
  gradient(stage, "w_k", here + "wv");
  l_.drop("k");
  l_.take("x");
  gradient(stage, "w_k", here + "wk");
  l_.add({{"x", 1}, {"k", 1}}, -1);
  l_.take("x");
  gradient(stage, "w_q", here + "wq");
  l_.drop("x", 3);
  norm_backward(stage, stage.again(block), input && (!floats_ || stage.again(block)) ? 1 : 0,
                here + "attention_norm");
  l_.drop("x");  // added in place
}

}  // namespace tidemark::zero_bubble_detach
