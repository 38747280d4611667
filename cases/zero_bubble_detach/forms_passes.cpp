#include "cases/zero_bubble_detach/forms.h"

namespace tidemark::zero_bubble_detach {

TensorBytes pass_tensors(const Sizes& z, const reference::DeviceFacts& device) {
  const Bytes t = z.tokens, h = z.hidden, f = z.ffn, v = z.vocabulary, e = z.element();
  TensorBytes all{{"x", {t * h * e}},      {"f", {t * f * e}},    {"s", {t * 4}},
                  {"logits", {t * v * e}}, {"wide", {t * v * 4}}, {"loss", {4}},
                  {"w_n", {h * e}},        {"w_f", {f * h * e}},  {"w_v", {v * h * e}}};
  if (z.habits.outputs_merged) all["merged"] = {z.microbatches * t * v * e};
  if (z.norms_in_floats) {
    all["y"] = {t * h * 4};
    const auto sum = z.norm_weight_sum(device);
    if (sum.buffer > 0) all["sum"] = {sum.buffer, sum.locks};
  }
  if (z.transformer) {
    const auto a = z.attention(device);
    all["k"] = {a.keys};
    all["w_q"] = {h * h * e};
    all["w_k"] = {h / z.heads * z.kv_heads * h * e};
    all["lse"] = {a.statistics};
    if (e == 2) all["random"] = {16, 8};
    if (a.split_output > 0) all["parts"] = {a.split_statistics, a.split_output};
    all["delta"] = {a.delta};
    all["acc"] = {a.workspace};
  }
  if (const auto l = z.lookup(device); l.sorts) {
    all["idx"] = {l.indices};
    all["sort"] = {l.sort};
    all["uniq"] = {8, l.unique};
    all["rows"] = {8, 8, l.rows, l.rows, l.parts, l.sums};
    if (l.atomic) all["rows"].push_back(l.parts);
  }
  for (const auto& [symbol, parts] : pass_parts(z, device))
    for (const auto& [part, count] : parts)
      for (int i = 0; i < static_cast<int>(count); ++i)
        for (const Bytes bytes : all.at(part)) all[symbol].push_back(bytes);
  return all;
}

std::map<std::string, Terms> pass_parts(const Sizes& z, const reference::DeviceFacts& device) {
  std::map<std::string, Terms> all{{"logp", {{"wide", 1}, {"loss", 1}}}};
  if (!z.transformer) {
    all["W"] = {{"w_f", 2}};
    for (const char* symbol : {"a_w", "a_n", "g"}) all[symbol] = {{"f", 1}};
    return all;
  }
  all["W"] = {{"w_n", 2}, {"w_q", 2}, {"w_k", 2}, {"w_f", 3}};
  all["a_w"] = {{"x", 3}, {"f", 1}, {"s", 2}};
  Terms& kept = all["a_n"] = {{"x", 2}, {"lse", 1}, {"f", 3}};
  if (z.norms_in_floats) {
    all["a_w"] = {{"x", 4}, {"f", 1}};
    kept["y"] = kept["s"] = 2;
  }
  if (z.bf16) kept["random"] = 1;
  kept[z.attention(device).copies ? "x" : "k"] += 2;
  all["g"] = {{"x", 4}, {"k", 2}, {"f", 2}};
  return all;
}

Terms gradients_of(const HeldStage& stage) {
  Terms all{{"W", stage.blocks}};
  if (stage.first) all["w_v"] += 1;
  if (stage.last) all["w_v"] += 1, all["w_n"] += 1;
  return all;
}

Passes::Passes(const Sizes& z, const reference::DeviceFacts& device, Ledger& ledger)
    : z_(z),
      floats_(z.norms_in_floats),
      sums_(z.norm_weight_sum(device).buffer > 0),
      sorts_(z.lookup(device).sorts),
      attention_(z.attention(device)),
      l_(ledger) {}

void Passes::save_block(const std::string& here) {
  if (!z_.transformer) {
    l_.take("f", 2);
    return l_.moment(here + "gelu");
  }
  norm(here);
  l_.add({{"x", 1}, {"k", 2}});  // queries, keys and values
  for (int i = 0; attention_.copies && i < 2; ++i) {
    l_.take("x");
    l_.moment(here + "keys and values repeated");
    l_.drop("k");
  }
  l_.add({{"x", 1}, {"lse", 1}});
  if (attention_.split_output > 0) l_.take("parts");
  if (z_.bf16) l_.take("random");
  l_.moment(here + "attention");
  if (attention_.split_output > 0) l_.drop("parts");
  l_.add({{"x", 2}});  // projected; added to the block's input
  l_.moment(here + "attention's output added");
  l_.drop("x");
  norm(here + "second ");
  l_.take("f", 4);  // gate, silu, up, product
  l_.moment(here + "product of gate and up");
}

void Passes::run_again(const std::string& here) {
  save_block(here + "run again, ");
  if (z_.transformer && floats_) l_.drop("x");  // the second norm's input
}

void Passes::norm(const std::string& where) {
  if (!floats_) return l_.add({{"x", 1}, {"s", 1}});
  l_.add({{"y", 2}, {"s", 1}, {"x", 1}});  // in floats, and the same divided; then narrow
  l_.moment(where + "norm");
  l_.drop("y");
  l_.take("x");
}

void Passes::norm_input(bool again, double inputs, const std::string& where) {
  if (floats_) {
    if (again) l_.add({{"x", 1}, {"s", 1}}, -1);
    // The gradients of y so far and of its square, and three more until the second one of y is
    // there.
    l_.take("y", 5);
    l_.moment(where);
    l_.drop("y", again ? 6 : 5);
    return l_.take("x");
  }
  l_.take("x");
  l_.moment(where);
  if (again) l_.add({{"x", inputs}, {"s", 1}}, -1);
}

Terms Passes::attention_saved() const {
  Terms all{{"x", 2}, {"lse", 1}};  // queries and output
  all[attention_.copies ? "x" : "k"] += 2;
  if (z_.bf16) all["random"] = 1;
  return all;
}

Terms Passes::saved_by_block(bool by_parameters_alone) const {
  if (!z_.transformer) return {{"f", by_parameters_alone ? 1.0 : 2.0}};
  const double y = floats_ ? 2 : 0, x = floats_ ? 4 : 3;
  if (by_parameters_alone)  // attention's output among them
    return {{"x", x + 1}, {"s", 2 - y}, {"f", 1}};
  Terms all = attention_saved();
  for (const auto& [symbol, count] : Terms{{"x", x}, {"s", 2}, {"f", 4}, {"y", y}})
    all[symbol] += count;
  return all;
}

// Memory while the operators run; each tensor is freed when the next operator has read it.
void Passes::forward_checkpointed(const std::string& here) {
  const auto passing = [&](const Terms& terms, const char* name) {
    l_.add(terms);
    l_.moment(here + name);
    l_.add(terms, -1);
  };
  if (z_.transformer) {
    Terms attention = attention_saved();
    if (attention_.split_output > 0) attention["parts"] = 1;
    passing(attention, "attention");
    if (floats_) passing({{"x", 2}, {"y", 2}}, "second norm");  // besides the sum
    passing({{"x", 2}, {"f", 3}}, "product of gate and up");    // besides sum and norm
    passing({{"x", 4}}, "output added");                        // likewise
  } else {
    passing({{"f", 2}}, "gelu");
    passing({{"f", 1}, {"x", 2}}, "output added");
  }
  l_.take("x");
}

void Passes::forward(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.first) l_.take("x");  // looked up
  for (int block = 0; block < static_cast<int>(held.blocks); ++block) {
    const std::string here = where + in_block(block);
    if (checkpointed(stage, block)) {
      forward_checkpointed(here);
      continue;
    }
    save_block(here);
    l_.take("x", 2);  // projected; added
    l_.moment(here + "output added");
    l_.drop("x");
    if (z_.transformer && floats_)  // what the norms have read
      l_.drop("x", block > 0 || held.first ? 2 : 1);
    l_.close("a_w");
    l_.close("a_n");
  }
  if (held.last) {
    norm(where + ": ");
    l_.take("logits");
    l_.moment(where + ": head");
    if (floats_) l_.drop("x");  // the norm's input
    if (z_.bf16) l_.take("wide");
    l_.add({{"logp", 1}, {"loss", 1}});
    l_.moment(where + ": loss");
    if (z_.bf16) l_.drop("wide");
  } else if (!held.keeps_output() && !held.output_stays) {
    l_.drop("x");  // sent, or in the place of another
  }
}

}  // namespace tidemark::zero_bubble_detach
