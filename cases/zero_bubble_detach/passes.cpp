#include "cases/zero_bubble_detach/passes.h"

#include <ranges>
#include <utility>

#include "reference/attention_plan.h"

namespace tidemark::zero_bubble_detach {
namespace {

reference::AttentionPlan attention_of(const Sizes& z, std::int64_t processors) {
  const auto& b = z.block;
  return {{z.tokens / b.sequence, b.sequence, b.heads, b.kv_heads, b.hidden / b.heads,
           z.type != at::kFloat},
          processors};
}

}  // namespace

Tensors pass_tensors(const Sizes& z, std::int64_t processors) {
  const Bytes t = z.tokens, h = z.block.hidden, f = z.block.ffn, v = z.vocabulary,
              e = z.type == at::kFloat ? 4 : 2;
  Tensors all{{"x", {t * h * e}},      {"f", {t * f * e}},    {"s", {t * 4}},
              {"logits", {t * v * e}}, {"wide", {t * v * 4}}, {"loss", {4}},
              {"w_n", {h * e}},        {"w_f", {f * h * e}},  {"w_v", {v * h * e}}};
  if (z.transformer) {
    const auto a = attention_of(z, processors);
    all["k"] = {a.keys};
    all["w_q"] = {h * h * e};
    all["w_k"] = {h / z.block.heads * z.block.kv_heads * h * e};
    all["lse"] = {a.statistics};
    if (e == 2) all["random"] = {16, 8};
    if (a.split_output > 0) all["parts"] = {a.split_statistics, a.split_output};
    all["delta"] = {a.delta};
    all["acc"] = {a.workspace};
  }
  for (const auto& [symbol, parts] : pass_parts(z, processors))
    for (const auto& [part, count] : parts)
      for (int i = 0; i < static_cast<int>(count); ++i)
        for (const Bytes bytes : all.at(part)) all[symbol].push_back(bytes);
  return all;
}

std::map<std::string, Terms> pass_parts(const Sizes& z, std::int64_t processors) {
  std::map<std::string, Terms> all{{"logp", {{"wide", 1}, {"loss", 1}}}};
  if (!z.transformer) {
    all["W"] = {{"w_f", 2}};
    for (const char* symbol : {"a_w", "a_n", "g"}) all[symbol] = {{"f", 1}};
    return all;
  }
  all["W"] = {{"w_n", 2}, {"w_q", 2}, {"w_k", 2}, {"w_f", 3}};
  all["a_w"] = {{"x", 3}, {"f", 1}, {"s", 2}};
  Terms& kept = all["a_n"] = {{"x", 2}, {"lse", 1}, {"f", 3}};
  if (z.type != at::kFloat) kept["random"] = 1;
  kept[attention_of(z, processors).copies ? "x" : "k"] += 2;
  all["g"] = {{"x", 4}, {"k", 2}, {"f", 2}};
  return all;
}

Terms gradients_of(const reference::HeldStage& stage) {
  Terms all{{"W", stage.blocks}};
  if (stage.first) all["w_v"] += 1;
  if (stage.last) all["w_v"] += 1, all["w_n"] += 1;
  return all;
}

Passes::Passes(const Sizes& z, std::int64_t processors, Ledger& ledger)
    : transformer_(z.transformer),
      bf16_(z.type != at::kFloat),
      parts_(transformer_ && attention_of(z, processors).split_output > 0),
      grouped_(z.block.heads != z.block.kv_heads),
      repeats_(transformer_ && attention_of(z, processors).repeats),
      copies_(transformer_ && attention_of(z, processors).copies),
      by_head_(z.block.heads > 1 && z.block.sequence > 1),
      repeated_(repeats_ ? "x" : "k"),
      l_(ledger) {}

void Passes::forward(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.first) l_.take("x");  // looked up
  for (int block = 0; block < static_cast<int>(held.blocks); ++block) {
    const std::string here = where + in_block(block);
    if (transformer_) {
      l_.add({{"x", 2}, {"s", 1}, {"k", 2}});  // the norm's output, queries, keys and values
      for (int i = 0; copies_ && i < 2; ++i) {
        l_.take("x");
        l_.moment(here + "keys and values repeated");
        l_.drop("k");
      }
      l_.add({{"x", 1}, {"lse", 1}});
      if (parts_) l_.take("parts");
      if (bf16_) l_.take("random");
      l_.moment(here + "attention");
      if (parts_) l_.drop("parts");
      l_.add({{"x", 2}});  // projected; added to the block's input
      l_.moment(here + "attention's output added");
      l_.drop("x");
      l_.add({{"x", 1}, {"s", 1}, {"f", 4}});  // the norm's output, gate, silu, up, product
    } else {
      l_.add({{"f", 2}});
    }
    l_.take("x", 2);  // projected; added
    l_.moment(here + "output added");
    l_.drop("x");
    l_.close("a_w");
    l_.close("a_n");
  }
  if (held.last) {
    l_.add({{"x", 1}, {"s", 1}, {"logits", 1}});
    if (bf16_) l_.take("wide");
    l_.add({{"logp", 1}, {"loss", 1}});
    l_.moment(where + ": loss");
    if (bf16_) l_.drop("wide");
  } else if (held.roots_as_edges && !held.output_stays) {
    l_.drop("x");  // sent
  }
}

void Passes::attention_backward(const std::string& where) {
  l_.take("x");
  l_.take(repeated_, 2);
  l_.take("delta");
  if (bf16_) {
    l_.take("acc");
    if (grouped_) l_.take("x", 2);
    l_.moment(where + "attention");
    if (grouped_) l_.drop("x", 2);
  } else {
    l_.take("x");  // gradient times output
    if (by_head_) l_.take("delta");
    l_.moment(where + "attention's row sums");
    if (by_head_) l_.drop("delta");
    l_.drop("x");
    l_.take("acc");
    l_.moment(where + "attention");
  }
  l_.drop("acc");
  l_.drop("delta");
}

void Passes::loss_backward(const std::string& where) {
  l_.take("wide", 2);
  l_.moment(where + "softmax");
  l_.drop("wide");
  if (bf16_) l_.take("logits");
  l_.moment(where + "logits");
  l_.drop("wide");
  if (!bf16_) l_.take("logits");
}

// Every gradient that arrives at a parameter's node stays.
void Passes::input(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.first) return;
  if (held.last) {
    l_.take("loss");
    loss_backward(where + ", loss: ");
    l_.take("x", 2);
    l_.moment(where + ", head");
  }
  for (int block = static_cast<int>(held.blocks) - 1; block >= 0; --block)
    block_input(where + in_block(block));
  if (stage.ends_at_input()) l_.drop("x");  // sent
  if (held.last) {
    l_.drop("loss");
    if (held.detach_loss || held.release || held.roots_as_edges) l_.drop("logp");
  }
  if (held.release) {
    l_.drop("a_n", held.blocks);
    if (transformer_) l_.take("x", held.blocks);  // attention's output, which a parameter reads
  }
}

void Passes::block_input(const std::string& here) {
  if (transformer_) {
    l_.take("f", 3);
    l_.moment(here + "product of gate and up");
    l_.drop("f");
    l_.add({{"x", 1}, {"f", 1}});
    l_.moment(here + "silu");
    l_.drop("f");
    l_.take("x");
    l_.moment(here + "w1");
    l_.add({{"x", 1}});  // less the one added in place, and the norm's and the sum's
    l_.moment(here + "second norm");
    l_.drop("x");
    l_.take("x");
    attention_backward(here);
    l_.drop("x");
    for (int i = 0; repeats_ && i < 2; ++i) {
      l_.take("k");
      l_.moment(here + "summed over the repeats");
      l_.drop("x");
    }
    l_.take("x", 2);
    l_.moment(here + "wq");
    l_.drop("x");
  } else {
    l_.take("f", 2);
    l_.moment(here + "gelu");
    l_.drop("f");
  }
  l_.take("x", 2);
  l_.moment(here + "its input");
  l_.drop("x");
  l_.close("g");
}

struct Passes::Group {
  std::string name, gradient;
  /// What its node has saved and lets go, where the groups run in order, and in reverse (a tensor
  /// that several nodes saved goes with the last of them).
  Terms saved, saved_reversed;
  Terms taken;  // the gradient that waits for it
};

std::vector<Passes::Group> Passes::block_groups(const Stage& stage, int block) const {
  const auto& held = stage.held;
  const Terms none, x{{"x", 1}}, f{{"f", 1}}, k{{"k", 1}};
  const Terms input = block > 0 ? x : none;  // the first one's is not the stage's own
  const bool top = block + 1 == static_cast<int>(held.blocks);
  const Terms output = !top || held.last || held.output_stays ? x : none;
  if (!transformer_) return {{"fc1", "w_f", input, input, f}, {"fc2", "w_f", f, f, output}};
  Terms norm{{"s", 1}};
  if (block > 0) norm["x"] = 1;
  const Terms attended = held.release ? x : none;  // else attention has saved it too
  return {{"attention_norm", "w_n", norm, norm, x},
          {"wq", "w_q", none, x, x},
          {"wk", "w_k", none, none, k},
          {"wv", "w_k", x, none, k},
          {"wo", "w_q", attended, attended, x},
          {"ffn_norm", "w_n", {{"x", 1}, {"s", 1}}, {{"x", 1}, {"s", 1}}, x},
          {"w1", "w_f", none, x, f},
          {"w3", "w_f", x, none, f},
          {"w2", "w_f", f, f, output}};
}

std::vector<Passes::Group> Passes::head_groups() const {
  const Terms x{{"x", 1}}, norm{{"x", 1}, {"s", 1}};
  return {{"norm", "w_n", norm, norm, x}, {"head", "w_v", x, x, {{"logits", 1}}}};
}

void Passes::gradient(const Stage& stage, const std::string& symbol, const std::string& where) {
  l_.take(symbol);
  l_.moment(where);
  if (stage.fresh)
    gradients_[symbol] += 1;
  else
    l_.drop(symbol);
}

void Passes::gradients_done(const Stage& stage) {
  if (!stage.fresh) return;
  l_.add(std::exchange(gradients_, {}), -1);
  l_.add(gradients_of(stage.held));
}

void Passes::run_groups(const Stage& stage, const std::vector<Group>& groups,
                        const std::string& where) {
  for (const auto& group : groups) {
    gradient(stage, group.gradient, where + group.name);
    l_.add(group.saved, -1);
    if (stage.held.clean_hooks) l_.add(group.taken, -1);
  }
}

// One run of the engine: the gradients that start it, and those it computes, stay until its end.
void Passes::run_together(const Stage& stage, std::vector<Group> groups, int block,
                          const std::string& where) {
  Terms computed;
  for (const auto& group : std::views::reverse(groups)) {
    l_.take(group.gradient);
    computed[group.gradient] += 1;
    l_.moment(where + group.name);
    l_.add(group.saved_reversed, -1);
    // The cut between the groups leaves these to the one tensor that still refers to their nodes.
    if (block < 0) continue;
    if (group.name == "fc2") l_.drop("f");
    if (group.name == "w2") l_.drop("f", 3);
    if (group.name == "wo") {
      l_.add({{"x", 2}, {"lse", 1}}, -1);
      l_.drop(copies_ ? "x" : "k", 2);
      if (bf16_) l_.drop("random");
    }
  }
  for (const auto& group : groups) l_.add(group.taken, -1);
  if (stage.fresh)
    for (const auto& [symbol, count] : computed) gradients_[symbol] += count;
  else
    l_.add(computed, -1);
}

void Passes::weight(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.first) return backward(stage, where);
  for (int block = 0; block < static_cast<int>(held.blocks); ++block) {
    l_.open("a_w");
    if (held.clean_hooks) l_.open("g");
    if (stage.one_task) {
      l_.open("a_n");
      run_together(stage, block_groups(stage, block), block, where + in_block(block));
    } else {
      run_groups(stage, block_groups(stage, block), where + in_block(block));
    }
  }
  if (held.last) {
    if (stage.one_task)
      run_together(stage, head_groups(), -1, where + ", ");
    else
      run_groups(stage, head_groups(), where + ", ");
  }
  // With the last node goes what the nodes between have saved, unless a root still leads there.
  const bool root = held.last ? !held.detach_last || !held.detach_loss : !held.detach_outputs;
  const bool graph = !held.clean_hooks || (root && !held.roots_as_edges);
  if (!graph && !held.release && !stage.one_task) l_.drop("a_n", held.blocks);
  if (held.roots_as_edges && held.input_stays) l_.drop("x");
  gradients_done(stage);
}

}  // namespace tidemark::zero_bubble_detach
