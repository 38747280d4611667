#include "cases/tp_buffer_reuse/moments.h"

#include "cases/tp_buffer_reuse/amounts.h"

namespace tidemark::tp_buffer_reuse {

Sum::Sum(std::initializer_list<std::pair<std::string, int>> terms) {
  for (const auto& [symbol, n] : terms) add(symbol, n);
}

Sum& Sum::add(const std::string& symbol, int n) {
  for (auto& term : terms_) {
    if (term.first == symbol) return term.second += n, *this;
  }
  if (n > 0) terms_.emplace_back(symbol, n);
  return *this;
}

Sum Sum::operator+(const Sum& other) const {
  Sum all = *this;
  for (const auto& [symbol, n] : other.terms_) all.add(symbol, n);
  return all;
}

std::string Sum::text() const {
  std::string all;
  for (const auto& [symbol, n] : terms_) {
    all += (all.empty() ? "" : " + ") + (n > 1 ? std::to_string(n) + "*" : "") + symbol;
  }
  return all;
}

namespace {

/// What a norm and the column linear behind it keep.
Sum column(const Dimensions& d, const Layout& layout) {
  return {{"X", 1}, {"s", 1}, {d.ranks == 1 || layout.recomputes() ? "X" : "F", 1}};
}
/// What the half of a layer below its MLP keeps.
Sum lower(const Dimensions& d, const Layout& layout) {
  return column(d, layout) + Sum{{"A", 1}, {"X", copies_output(d) ? 1 : 0}};
}

/// The gradients of queries, keys and values beside that of attention's output and its copies with
/// the sequence outside; and the temporaries of the fused kernel's backward: in single precision
/// either of two sets is the larger.
std::vector<Sum> attention_backward(const Dimensions& d) {
  const bool grouped = d.heads != d.kv_heads;
  // Single precision has keys and values repeated for every head.
  Sum gradients{{"X", 2}, {grouped && d.bf16 ? "k" : "X", 2}};
  if (d.batch > 1) gradients.add("X", d.bf16 ? 2 : 1);  // flash copies the output, too
  if (d.bf16) return {gradients + Sum{{"D", 1}, {"B", 1}, {"X", grouped ? 2 : 0}}};
  return {gradients + Sum{{"X", 1}, {"D", d.own_heads() > 1 ? 2 : 1}},
          gradients + Sum{{"D", 1}, {"B", 1}}};
}

}  // namespace

Sum kept(const Dimensions& d, const Layout& layout) {
  return lower(d, layout) + column(d, layout) + Sum{{"g", 1}, {"f", layout.fused_glu ? 1 : 2}};
}

Sum within_attention(const Dimensions& d, const Layout& layout) {
  return column(d, layout) + Sum{{"A", 1}, {"S", 1}};
}

std::vector<Operator> backward_operators(const Dimensions& d, const Layout& layout) {
  const bool parallel = d.ranks > 1;
  const std::string whole = parallel ? "F" : "X";
  // A row linear gathers the gradient of its output, into new memory or into a persistent buffer.
  const Sum gathered{{"F", parallel && !layout.overlaps() ? 1 : 0}};
  // A column linear makes the whole gradient of its input; one that is one Function scatters it
  // while the gradient of its output is alive.
  const bool function = parallel && layout.gather != GatherPolicy::separate;
  const Sum scattered{{whole, 1}, {"X", function ? 1 : 0}};
  // An eager GLU keeps silu(gate), and makes the gradients of both factors beside its output's.
  const Sum glu = layout.fused_glu ? Sum{{"g", 1}, {"f", 1}} : Sum{{"f", 4}};

  const Sum mlp{{"W_d", 1}, {"W_gu", 1}, {"n", 1}}, all = mlp + Sum{{"W_o", 1}};
  const auto input = column(d, layout), half = lower(d, layout);
  std::vector<Operator> operators{{.name = "the linear after the GLU",
                                   .layer = kept(d, layout),
                                   .made = gathered + Sum{{"f", 1}},
                                   .weight = {{"W_d", 1}}},
                                  {.name = "the GLU",
                                   .layer = half + input + Sum{{"g", 1}},
                                   .made = glu,
                                   .before = {{"W_d", 1}}},
                                  {.name = "the linear of gate and up",
                                   .layer = half + input,
                                   .made = scattered + Sum{{"g", 1}},
                                   .before = {{"W_d", 1}},
                                   .weight = {{"W_gu", 1}}},
                                  {.name = "the linear after attention",
                                   .layer = half,
                                   .made = gathered + Sum{{"X", 1}},
                                   .before = mlp,
                                   .weight = {{"W_o", 1}},
                                   .residual = true}};
  for (const auto& made : attention_backward(d)) {
    operators.push_back({.name = "attention",
                         .layer = input + Sum{{"A", 1}},
                         .made = made,
                         .before = all,
                         .residual = true});
  }
  operators.push_back({.name = "the linear of queries, keys and values",
                       .layer = input,
                       .made = scattered + Sum{{"M", 1}},
                       .before = all,
                       .weight = {{"W_qkv", 1}},
                       .residual = true});
  return operators;
}

}  // namespace tidemark::tp_buffer_reuse
