#include "cases/zero_bubble_detach/forms.h"

namespace tidemark::zero_bubble_detach {

// Backward in one go: what a node has saved goes when it has run.
void Passes::backward(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.last) {
    loss_backward(true, where + ", loss: ");
    l_.take("x");
    gradient(stage, "w_v", where + ", head");
    l_.drop("logits");
    l_.drop("x");
    norm_backward(stage, false, floats_ ? 0 : 1, where + ", norm");
  }
  for (int block = static_cast<int>(held.blocks) - 1; block >= 0; --block)
    block_backward(stage, block, true, where + in_block(block));
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

// Every gradient that arrives at a parameter's node stays.
void Passes::input(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.first) return;
  if (held.last) {
    loss_backward(false, where + ", loss: ");
    l_.take("x");
    norm_input(false, 0, where + ", head");
  }
  for (int block = static_cast<int>(held.blocks) - 1; block >= 0; --block)
    block_backward(stage, block, false, where + in_block(block));
  if (stage.left) l_.drop("x");
  // Sent, or in the place of another.
  if (stage.ends_at_input() && !held.keeps_input_gradient(false)) l_.drop("x");
  if (held.last) {
    l_.drop("loss");
    if (!held.keeps_loss_graph()) l_.drop("logp");
  }
  if (held.policy.release) {
    const double kept = held.blocks - held.again;
    l_.drop("a_n", kept);
    if (z_.transformer) l_.take("x", kept);  // attention's output, which a parameter reads
    if (held.last && floats_) l_.add({{"y", 1}, {"s", 1}}, -1);
  }
}

void Passes::loss_backward(bool whole, const std::string& where) {
  l_.take("loss");
  l_.take("wide");
  if (whole) {
    l_.open("logp");
    l_.drop("loss");  // the weight of all tokens
  }
  l_.take("wide");
  l_.moment(where + "softmax");
  l_.drop("wide", whole ? 2 : 1);
  if (z_.bf16) l_.take("logits");
  l_.moment(where + "logits");
  l_.drop("wide");
  if (!z_.bf16) l_.take("logits");
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

// `whole`, or else of the input pass, in which every gradient that arrives at a parameter's node
// stays, and what a node has saved, unless it exists for this run alone.
void Passes::block_backward(const Stage& stage, int block, bool whole, const std::string& here) {
  const auto& held = stage.held;
  const bool again = checkpointed(stage, block);
  const bool input = block > 0 || held.first;  // its input is the stage's own
  // The gradient of a stage's output is the caller's.
  const bool shared = !whole || (block + 1 == static_cast<int>(held.blocks) && !held.last);
  if (again) {
    run_again(here);
  } else if (whole) {
    l_.open("a_w");
    l_.open("a_n");
  }
  const auto read = [&](const Terms& saved) {
    if (whole || again) l_.add(saved, -1);
  };
  /// A product's backward: the gradient of its input, then (whole) that of its weight.
  const auto product = [&](const char* input_gradient, const char* weight, const char* name) {
    l_.take(input_gradient);
    if (whole)
      gradient(stage, weight, here + name);
    else
      l_.moment(here + name);
  };
  const auto arrived = [&](const char* symbol) {
    if (whole) l_.drop(symbol);
  };
  // A node's input gradient added to one that is there, in place unless that is shared; its
  // weight's gradient `symbol` is there, too.
  const auto added = [&](const std::string& symbol, const char* name) {
    if (!shared) return l_.drop("x");
    const bool beside = whole && !stage.fresh && !symbol.empty();
    if (beside) l_.take(symbol);
    l_.take("x");
    l_.moment(here + (whole ? "sum of gradients" : name));
    l_.drop("x");
    if (beside) l_.drop(symbol);
  };
  if (!z_.transformer) {
    product("f", "w_f", "fc2");
    read({{"f", 1}});
    l_.take("f");
    l_.moment(here + "gelu");
    l_.drop("f");
    read({{"f", 1}});
    product("x", "w_f", "fc1");
    arrived("f");
    if (input) arrived("x");
    added("w_f", "its input");
    if (!whole) l_.close("g");
    return;
  }
  product("f", "w_f", "w2");
  read({{"f", 1}});
  l_.take("f", 2);
  l_.moment(here + "product of gate and up");
  l_.drop("f");
  read({{"f", 2}});
  product("x", "w_f", "w3");
  arrived("f");
  l_.take("f");
  l_.moment(here + "silu");
  l_.drop("f");
  read({{"f", 1}});
  product("x", "w_f", "w1");
  l_.drop("x");  // added in place
  read({{"x", 1}});
  arrived("f");
  if (whole)
    norm_backward(stage, again, floats_ ? 0 : 1, here + "ffn_norm");
  else
    norm_input(again, 1, here + "second norm");
  added(floats_ ? "" : "w_n", "second norm's input");
  product("x", "w_q", "wo");
  attention_backward(here);
  l_.drop("x");
  read(attention_saved());
  for (int i = 0; attention_.repeats && i < 2; ++i) {
    l_.take("k");
    l_.moment(here + "summed over the repeats");
    l_.drop("x");
  }
  product("x", "w_k", "wv");
  arrived("k");
  product("x", "w_k", "wk");
  l_.drop("x");  // added in place
  arrived("k");
  product("x", "w_q", "wq");
  l_.drop("x");  // likewise
  read({{"x", 1}});
  arrived("x");
  if (whole) {
    norm_backward(stage, again, input && (!floats_ || again) ? 1 : 0, here + "attention_norm");
    return l_.drop("x");  // likewise
  }
  norm_input(again, 0, here + "norm");
  added("", "its input");
  l_.close("g");
}

void Passes::attention_backward(const std::string& where) {
  l_.take("x");
  l_.take(attention_.repeats ? "x" : "k", 2);
  l_.take("delta");
  if (z_.bf16) {
    const bool grouped = z_.heads != z_.kv_heads;
    l_.take("acc");
    if (grouped) l_.take("x", 2);
    l_.moment(where + "attention");
    if (grouped) l_.drop("x", 2);
  } else {
    const bool by_head = z_.heads > 1 && z_.sequence > 1;
    l_.take("x");  // gradient times output
    if (by_head) l_.take("delta");
    l_.moment(where + "attention's row sums");
    if (by_head) l_.drop("delta");
    l_.drop("x");
    l_.take("acc");
    l_.moment(where + "attention");
  }
  l_.drop("acc");
  l_.drop("delta");
}

}  // namespace tidemark::zero_bubble_detach
