// The forms of the scenario: for each phase the few moments that can be its highest, each a sum of
// named amounts, at any size, on any number of ranks, under any policy that is right.
//
// A layer keeps of a microbatch, for backward,
//   2*X + 2*s    inputs and statistics of its two norms
//   2*F          gathered inputs of its two column linears; 2*X where they are gathered again
//   A            attention; X more in single precision with several sequences: the output is
//                copied with the sequence outside
//   g + f        gate and up, and the GLU's output; f more where the GLU is eager
// and a microbatch X more than its layers: the output of the last one.
//
// Forward peaks in the last layer of the last microbatch, where the last row linear has made its
// partial sum F and the scattered X, and not yet the layer's output; or, where flash divides the
// keys into parts, in the last layer's attention, with S.
//
// Backward frees a microbatch layer by layer, from the top. The first microbatch leaves P of
// gradients a layer; in every later one, and in every round of a step but the first, a weight's
// gradient is added to that, and freed. A layer keeps either more than P or less, so the peak is at
// the first microbatch's top layer or at its lowest, or at the second microbatch's top layer; in a
// later round at the first microbatch's top layer. Below the top layer, the gradient of the output
// is held beside that of the residual stream, so that the second layer can be higher than the top
// one, by less than X. Within a layer the peak is at one of six operators, those that make more
// than they free.
//
// With weights and gradients in single precision beside the parameters (H a layer), a gradient in
// half precision is added to that one and freed at once. No P adds up, so the first microbatch's
// top layer is the highest of each backward.
#include <algorithm>
#include <set>
#include <string>

#include "cases/device_facts.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "harness/judge/form.h"

namespace tidemark::tp_buffer_reuse {
namespace {

/// True if attention's output is copied with the sequence outside.
bool copies_output(const Dimensions& d) { return !d.bf16 && d.batch > 1; }

/// Every symbol's tensors on one rank, in a step after the first.
Vocabulary amounts(const Dimensions& d, const reference::DeviceFacts& device) {
  using Tensors = std::vector<Bytes>;
  const reference::AttentionPlan attention(d.attention(), device);
  const Bytes whole = d.rows() * d.hidden * d.element(), shard = whole / d.ranks;
  const Bytes merged = d.rows() * d.qkv() * d.element();
  const Bytes half = d.rows() * d.own_ffn() * d.element();
  const Bytes norm = d.hidden * d.element(), qkv = d.qkv() * norm,
              out = d.own_heads() * d.head() * norm, down = d.own_ffn() * norm;
  const Tensors weights{norm, qkv, out, norm, 2 * down, down};

  Vocabulary v;
  v.tensors("rest", {4, device.workspace_bytes, device.workspace_bytes});
  if (d.clip > 0) v.tensors("rest", {4});
  Tensors updated = weights;
  for (Bytes& bytes : updated) bytes = bytes / d.element() * d.updated();
  for (std::int64_t i = 0; i < d.layers; ++i)
    for (const auto& each : {weights, updated, updated}) v.tensors("rest", each);
  if (d.main_weights) {
    v.tensors("H", updated);
    v.tensors("H", updated);
    v.tensors("T", updated);
  }
  v.count("q", static_cast<double>(d.in_flight));
  v.count("L", static_cast<double>(d.layers));
  if (d.ranks > 1) {
    v.tensors("b", {whole});
    v.tensors("F", {whole});
  }
  v.tensors("X", {shard});
  v.tensors("s", {d.shard_rows() * 4});
  v.tensors("A", {merged, attention.queries, attention.statistics});
  if (attention.copies) v.tensors("A", {attention.queries, attention.queries});
  if (d.bf16) v.tensors("A", {16, 8});  // flash's random state, used or not
  v.tensors("M", {merged});
  v.tensors("g", {2 * half});
  v.tensors("f", {half});
  v.tensors("P", weights);
  v.tensors("W_qkv", {qkv});
  v.tensors("W_o", {out});
  v.tensors("W_gu", {2 * down});
  v.tensors("W_d", {down});
  v.tensors("n", {norm});
  v.tensors("k", {attention.keys});
  v.tensors("D", {attention.delta});
  if (d.bf16) {
    v.tensors("B", {attention.workspace});
  } else {
    v.passing("B", attention.workspace);
  }
  v.tensors("S", {attention.split_statistics, attention.split_output});
  return v;
}

/// An operator of a layer's backward.
struct Operator {
  std::string name = {};
  Alive layer = {};   // what its layer still keeps of the microbatch
  Alive made = {};    // what it makes and holds, but for the gradient of its weight
  Alive before = {};  // gradients of weights that the layer has made already
  Alive weight = {};  // the gradient of its weight; empty where it has none
  /// True if the residual stream's gradient is a tensor beside the output's, in the top layer too.
  bool residual = false;
};

/// Memory that a norm and the column linear after it keep.
Alive column(const Dimensions& d, const Policy& policy) {
  return {{"X", 1}, {"s", 1}, {d.ranks == 1 || policy.recomputes() ? "X" : "F", 1}};
}
/// Memory that the half of a layer below its MLP keeps.
Alive lower(const Dimensions& d, const Policy& policy) {
  return column(d, policy) + Alive{{"A", 1}, {"X", copies_output(d) ? 1 : 0}};
}

/// The gradients of queries, keys and values beside that of attention's output and its copies with
/// the sequence outside; and the temporaries of the fused kernel's backward: in single precision
/// either of two sets is the larger.
std::vector<Alive> attention_backward(const Dimensions& d) {
  const bool grouped = d.heads != d.kv_heads;
  // Single precision has keys and values repeated for every head.
  Alive gradients{{"X", 2}, {grouped && d.bf16 ? "k" : "X", 2}};
  if (d.batch > 1) gradients.add("X", d.bf16 ? 2 : 1);  // flash copies the output, too
  if (d.bf16) return {gradients + Alive{{"D", 1}, {"B", 1}, {"X", grouped ? 2 : 0}}};
  return {gradients + Alive{{"X", 1}, {"D", d.own_heads() > 1 ? 2 : 1}},
          gradients + Alive{{"D", 1}, {"B", 1}}};
}

/// Memory that a layer keeps of a microbatch between forward and backward.
Alive kept(const Dimensions& d, const Policy& policy) {
  return lower(d, policy) + column(d, policy) + Alive{{"g", 1}, {"f", policy.fused_glu ? 1 : 2}};
}

/// Memory of a layer that is alive in the parts of its flash attention, in forward.
Alive within_attention(const Dimensions& d, const Policy& policy) {
  return column(d, policy) + Alive{{"A", 1}, {"S", 1}};
}

/// In the order of backward.
std::vector<Operator> backward_operators(const Dimensions& d, const Policy& policy) {
  const bool parallel = d.ranks > 1;
  const std::string whole = parallel ? "F" : "X";
  // A row linear gathers the gradient of its output, into new memory or into a persistent buffer.
  const Alive gathered{{"F", parallel && !policy.overlaps() ? 1 : 0}};
  // A column linear makes the whole gradient of its input; one that is one Function scatters it
  // while the gradient of its output is alive.
  const bool function = parallel && policy.gather != GatherPolicy::separate;
  const Alive scattered{{whole, 1}, {"X", function ? 1 : 0}};
  // An eager GLU keeps silu(gate), and makes the gradients of both factors beside its output's.
  const Alive glu = policy.fused_glu ? Alive{{"g", 1}, {"f", 1}} : Alive{{"f", 4}};

  const Alive mlp{{"W_d", 1}, {"W_gu", 1}, {"n", 1}}, all = mlp + Alive{{"W_o", 1}};
  const auto input = column(d, policy), half = lower(d, policy);
  std::vector<Operator> operators{{.name = "the linear after the GLU",
                                   .layer = kept(d, policy),
                                   .made = gathered + Alive{{"f", 1}},
                                   .weight = {{"W_d", 1}}},
                                  {.name = "the GLU",
                                   .layer = half + input + Alive{{"g", 1}},
                                   .made = glu,
                                   .before = {{"W_d", 1}}},
                                  {.name = "the linear of gate and up",
                                   .layer = half + input,
                                   .made = scattered + Alive{{"g", 1}},
                                   .before = {{"W_d", 1}},
                                   .weight = {{"W_gu", 1}}},
                                  {.name = "the linear after attention",
                                   .layer = half,
                                   .made = gathered + Alive{{"X", 1}},
                                   .before = mlp,
                                   .weight = {{"W_o", 1}},
                                   .residual = true}};
  for (const auto& made : attention_backward(d)) {
    operators.push_back({.name = "attention",
                         .layer = input + Alive{{"A", 1}},
                         .made = made,
                         .before = all,
                         .residual = true});
  }
  operators.push_back({.name = "the linear of queries, keys and values",
                       .layer = input,
                       .made = scattered + Alive{{"M", 1}},
                       .before = all,
                       .weight = {{"W_qkv", 1}},
                       .residual = true});
  return operators;
}

using Moments = std::vector<FormMoment>;

class Paper {
 public:
  Paper(const Dimensions& sizes, const Policy& policy)
      : d_(sizes),
        policy_(policy),
        rest_(std::string(!policy.recomputes() || sizes.ranks == 1 ? "rest"
                          : policy.overlaps()                      ? "rest + 2*b"
                                                                   : "rest + b") +
              (sizes.main_weights ? " + L*H" : "")),
        layer_("(" + kept(sizes, policy).text() + ")"),
        in_flight_(rest_ + " + q*(X + L*" + layer_ + ")") {}

  Moments forward(const reference::DeviceFacts& device, std::int64_t round) const {
    const auto before = added(round);
    Moments all{{"the last row linear", in_flight_ + before + (d_.ranks > 1 ? " + F" : " + X")}};
    if (reference::AttentionPlan(d_.attention(), device).split_output > 0) {
      all.push_back({"the last attention", rest_ + before +
                                               (d_.in_flight > 1 ? " + (q - 1)*X" : "") +
                                               layers("q*L - 1", d_.in_flight * d_.layers - 1) +
                                               " + " + within_attention(d_, policy_).text()});
    }
    return all;
  }
  Moments forward_end(std::int64_t round) const {
    return {{"all microbatches in flight", in_flight_ + added(round)}};
  }

  Moments backward(std::int64_t round) const {
    Moments all;
    for (const auto& o : backward_operators(d_, policy_)) {
      if (round > 0 || d_.main_weights) {
        all.push_back(on_top(o, "first", "q", d_.in_flight));
        continue;
      }
      for (const auto i :
           std::set<std::int64_t>{d_.layers, std::max<std::int64_t>(1, d_.layers - 1), 1}) {
        all.push_back(in_first(o, i));
      }
      if (d_.in_flight > 1) all.push_back(on_top(o, "second", "(q - 1)", d_.in_flight - 1));
    }
    return all;
  }
  Moments gradients() const { return {{"every gradient made", rest_ + gradients_}}; }
  /// Adam's one temporary is as large as its weights.
  Moments optimizer() const {
    return {{"Adam's denominators", rest_ + (d_.main_weights ? " + L*T" : " + 2*L*P")}};
  }

 private:
  /// Gradients that the rounds before have left.
  std::string added(std::int64_t round) const { return round > 0 ? gradients_ : ""; }

  /// Memory that `count` layers keep, if there are any.
  std::string layers(const std::string& text, std::int64_t count) const {
    return count == 0 ? "" : " + (" + text + ")*" + layer_;
  }

  /// An operator in the first microbatch, with `i` layers whose backward is not over.
  FormMoment in_first(const Operator& o, std::int64_t i) const {
    // The output's gradient, and the residual stream's.
    const Alive output_gradients{{"X", o.residual || i < d_.layers ? 2 : 1}};
    return {o.name + " of layer " + std::to_string(i) + ", first microbatch",
            rest_ + " + q*X" + layers("(q - 1)*L + i - 1", (d_.in_flight - 1) * d_.layers + i - 1) +
                (i < d_.layers ? " + (L - i)*P" : "") + " + " +
                (output_gradients + o.layer + o.made + o.before + o.weight).text(),
            {{"i", static_cast<double>(i)}}};
  }

  /// An operator in the top layer of a microbatch, when every parameter has its gradient and
  /// `left` microbatches' backwards are not over (`text`).
  FormMoment on_top(const Operator& o, const std::string& microbatch, const std::string& text,
                    std::int64_t left) const {
    const Alive output_gradients{{"X", o.residual ? 2 : 1}};
    return {o.name + " of the top layer, " + microbatch + " microbatch",
            rest_ + " + " + text + "*X" + layers(text + "*L - 1", left * d_.layers - 1) +
                gradients_ + " + " + (output_gradients + o.layer + o.made + o.weight).text()};
  }

  const Dimensions d_;
  const Policy policy_;
  const std::string rest_, layer_, in_flight_;
  /// The gradients of all parameters, as earlier backwards have left them.
  const std::string gradients_ = d_.main_weights ? "" : " + L*P";
};

}  // namespace

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int /*rank*/) {
  const auto policy = claim_of(variant);
  if (!policy || trial.steps < 2) return {};
  const Dimensions d(trial);
  const auto device = current_device_facts();
  const auto vocabulary = amounts(d, device);
  const Paper paper(d, *policy);
  std::vector<Expectation> all;
  const auto add = [&](const std::string& phase, bool at_end, const Moments& moments) {
    append(all, vocabulary.forms(phase, at_end, kOnPaper, moments));
  };
  for (std::int64_t round = 0; round < d.rounds; ++round) {
    const auto forward = "forward" + d.suffix(round), backward = "backward" + d.suffix(round);
    add(forward, false, paper.forward(device, round));
    add(forward, true, paper.forward_end(round));
    add(backward, false, paper.backward(round));
    add(backward, true, paper.gradients());
  }
  add("optimizer", false, paper.optimizer());
  add("optimizer", true, paper.gradients());
  return all;
}

std::vector<Symbol> symbols() {
  using enum MemoryKind;
  return {
      {"rest",
       "what stays between steps under every policy: parameters, Adam's two moments, a cuBLAS "
       "workspace for each of two threads, and the loss",
       {parameters, optimizer_state, workspaces, outputs}},
      {"b", "a persistent buffer for a gathered activation: one tensor", {persistent_buffers}},
      {"q", "microbatches in flight"},
      {"L", "layers of this pipeline stage"},
      {"i", "layers whose backward is not over, the one at this moment included"},
      {"F", "a gathered activation: one tensor", {gathered_activations, gradients}},
      {"X",
       "an activation divided among the ranks, by rows or by heads (F/t): one tensor",
       {activations, gradients}},
      {"s", "statistics of one norm: one tensor", {activations}},
      {"A",
       "what attention keeps: queries, keys and values, repeated keys and values where the kernel "
       "needs them, output, log-sum-exp, random state",
       {activations}},
      {"M", "gradient of queries, keys and values: one tensor", {gradients}},
      {"g", "gate and up of the GLU, or their gradient: one tensor", {activations, gradients}},
      {"f",
       "a GLU activation (its output, silu(gate)) or a gradient of one: one tensor",
       {activations, gradients}},
      {"P", "gradients of one layer's parameters: six tensors", {gradients}},
      {"H",
       "weights of one layer in single precision and their gradients (main_weights=yes): twelve "
       "tensors",
       {optimizer_state, gradients}},
      {"T",
       "Adam's temporary for one layer's weights in single precision: six tensors",
       {optimizer_temporaries}},
      {"W_qkv", "gradient of the weight of queries, keys and values: one tensor", {gradients}},
      {"W_o", "gradient of the weight after attention: one tensor", {gradients}},
      {"W_gu", "gradient of the weight of gate and up: one tensor", {gradients}},
      {"W_d", "gradient of the weight after the GLU: one tensor", {gradients}},
      {"n", "gradient of one norm's weight: one tensor", {gradients}},
      {"k", "gradient of keys, or of values: one tensor", {gradients}},
      {"D", "row sums of gradient times output, in attention's backward: one tensor", {gradients}},
      {"B",
       "workspace of attention's backward, where the queries' gradient is summed: one tensor",
       {gradients}},
      {"S",
       "outputs and log-sum-exps of attention's parts, before they are merged: two tensors",
       {activations}}};
}

}  // namespace tidemark::tp_buffer_reuse
