// The forms: the step's peak on the rank of the last stage, which is the worst. A rank holds of
// each microbatch on a stage of n blocks, when the pass named has ended,
//   F   n*(a_w + a_n), its blocks' inputs, its output; of the last stage logits and loss besides
//   I   and n*g, the gradients for the weight pass; without a_n if the input pass releases it
//   W   its output and loss; and whatever they, or hooks, still lead to: n*a_n, log-probabilities,
//   n*g
// If the user keeps the losses, each microbatch of the step before also has what its loss leads to:
// n*a_n, log-probabilities, and two numbers, or one number alone if it is detached. The peak is the
// highest of a few moments of a pass beyond what is held then: the sum after the last block or the
// loss (F); the softmax, or an operator of the lowest block's backward, when the g of all others is
// there (I); the gradient of a weight (W). kFormed says of which trials that holds; the accounts of
// the replay have all of them.
#include <map>
#include <set>

#include "cases/device_facts.h"
#include "cases/zero_bubble_detach/policy.h"
#include "harness/judge/form.h"

namespace tidemark::zero_bubble_detach {
namespace {

class Rank {
 public:
  Rank(const Trial& trial, const StagePolicy& policy, int rank,
       const reference::DeviceFacts& device)
      : z_(trial), p_(policy), a_(z_.attention(device)) {
    const auto schedule = schedule_of(trial);
    const Bytes t = z_.tokens, h = z_.hidden, f = z_.ffn, v = z_.vocabulary, e = z_.element();
    const Bytes w = h * e, k = h / z_.heads * z_.kv_heads;
    const auto each = [&](std::vector<const char*> symbols, std::vector<Bytes> bytes) {
      for (std::size_t i = 0; i < symbols.size(); ++i) bytes_[symbols[i]] = {bytes[i]};
    };
    each({"x", "f", "s", "k", "loss"}, {t * w, t * f * e, t * 4, a_.keys, 4});
    each({"logits", "wide", "lse", "delta"}, {t * v * e, t * v * 4, a_.statistics, a_.delta});
    each({"w_n", "w_q", "w_k", "w_f", "w_v"}, {w, h * w, k * w, f * w, v * w});
    each({"acc", "random", "offset", "workspace"}, {a_.workspace, 16, 8, device.workspace_bytes});
    sum_of("W", {{"w_n", 2}, {"w_q", 2}, {"w_k", 2}, {"w_f", 3}});
    sum_of("a_w", {{"x", 3}, {"f", 1}, {"s", 2}});
    sum_of("a_n", {{"x", 2}, {a_.copies ? "x" : "k", 2}, {"f", 3}, {"lse", 1}});
    if (z_.bf16) sum_of("a_n", {{"random", 1}, {"offset", 1}});
    sum_of("g", {{"x", 4}, {"k", 2}, {"f", 2}});
    const auto stages = stages_of(z_, schedule, rank);
    for (const StagePlace& stage : stages) {
      for (auto i = stage.first_layer; i < stage.end_layer; ++i) sum_of("rest", {{"W", 1}});
      sum_of("rest", {{"x", (stage.last ? 1 : 2) * z_.microbatches}});  // receive buffers
      if (!stage.last) continue;
      sum_of("rest", {{"w_n", 1}, {"w_v", 1}});
      bytes_["rest"].push_back(8 * z_.microbatches * t);  // tokens
    }
    alive_ = {{"rest", 1}, {"workspace", 2}};
    const auto earlier = p_.never_collects ? (trial.steps - 1) * z_.microbatches : 0;
    for (const StagePlace& stage : stages) {
      alive_.add(led_to(stage) + taken(stage), earlier);
      if (stage.last && z_.losses_kept && !p_.clears_losses)
        alive_.add(led_to_by_loss(stage), z_.microbatches);
    }
    std::set<int> with_gradients;
    for (const Action& action : schedule.order[static_cast<std::size_t>(rank)]) {
      const StagePlace stage = place_of(z_, schedule, action.stage);
      name_ = call_of(action).op + ", " + call_of(action).unit + ": ";
      if (action.pass == Pass::forward) forward(stage);
      if (action.pass == Pass::input) input(stage);
      if (action.pass == Pass::weight) weight(stage, with_gradients.insert(action.stage).second);
    }
  }

  std::vector<Expectation> forms() const {
    Vocabulary paper;
    for (const auto& [symbol, bytes] : bytes_) paper.tensors(symbol, bytes);
    return paper.forms("pipeline", false, kOnPaper, moments_);
  }

 private:
  void sum_of(const char* symbol, const Alive& parts) {
    for (const auto& [part, count] : parts.terms())
      for (int i = 0; i < count; ++i)
        for (const Bytes bytes : std::vector(bytes_.at(part))) bytes_[symbol].push_back(bytes);
  }
  void moment(const std::string& what, const Alive& more) {
    const auto text = (alive_ + more).text();
    if (texts_.insert(text).second) moments_.push_back({name_ + what, text});
  }

  /// The stage's output, or the last one's loss, which the step keeps.
  Alive output(const StagePlace& s) const {
    if (s.last) return {{"logits", 1}, {"loss", 1}};
    return {{"x", p_.roots_as_edges ? 0 : 1}};
  }
  /// Held after the weight pass by a root or a hook.
  Alive led_to(const StagePlace& s) const {
    const bool root = s.last ? !p_.detach_last || !p_.detach_loss : !p_.detach_outputs;
    return {{"a_n", p_.clean_hooks && (!root || p_.roots_as_edges) ? 0 : s.blocks()}};
  }
  /// What a loss of the step before leads to. A cycle that is never collected has a_n itself.
  Alive led_to_by_loss(const StagePlace& s) const {
    if (p_.detach_loss || p_.roots_as_edges) return {{"loss", 1}};
    return {{"a_n", p_.never_collects ? 0 : s.blocks()}, {"wide", 1}, {"loss", 2}};
  }
  /// Gradients taken down for the weight pass, but for those in a receive buffer.
  Alive taken(const StagePlace& s) const {
    return {{"g", s.blocks()}, {"x", s.blocks() - 1 + 2 * s.last}, {"logits", s.last}};
  }

  void forward(const StagePlace& s) {
    const auto n = s.blocks();
    alive_.add({{"a_w", n}, {"a_n", n}, {"x", n - 1}});
    moment("output added", {{"x", 2}});
    alive_.add(output(s));
    if (s.last) alive_.add({{"x", 2}, {"s", 1}, {"wide", 1}, {"loss", 1}});  // log-probabilities
    moment("output or loss", {{"wide", s.last && z_.bf16}});
  }

  void input(const StagePlace& s) {
    const auto n = s.blocks();
    const std::int64_t grouped = z_.bf16 && z_.heads != z_.kv_heads ? 2 : 0;
    const char* keys = a_.repeats ? "x" : "k";
    if (s.last) moment("softmax", {{"loss", 1}, {"wide", 2}});
    const Alive above = Alive{
        {"g", n - 1}, {"x", n - 1 + 2 * s.last}, {"loss", s.last}, {"logits", s.last}, {"f", 2}};
    moment("silu", above + Alive{{"f", 1}, {"x", 1}});
    const Alive attention = above + Alive{{"x", 4}, {keys, 2}, {"delta", 1}};
    if (!z_.bf16)
      moment("attention's row sums",
             attention + Alive{{"x", 1}, {"delta", z_.heads > 1 && z_.sequence > 1}});
    moment("attention", attention + Alive{{"acc", 1}, {"x", grouped}});
    moment("the block's input", above + Alive{{"x", 6}, {"k", 2}});
    alive_.add(taken(s));
    if (p_.release) alive_.add({{"a_n", -n}, {"x", n}});
    const bool loss_graph = !p_.detach_loss && !p_.roots_as_edges && !p_.release;
    if (s.last && !loss_graph) alive_.add({{"wide", -1}, {"loss", -1}});
  }

  /// Each run of the engine makes a gradient, frees what its node has saved and, with clean hooks,
  /// the gradient that it began with, unless that is in a receive buffer.
  void weight(const StagePlace& s, bool fresh) {
    const auto run = [&](const char* made, const char* began, const Alive& saved) {
      moment(made, {{made, 1}});
      alive_.add(made, fresh);
      alive_.add(saved, -1);
      if (p_.clean_hooks) alive_.add(began, -1);
    };
    for (std::int64_t b = 0; b < s.blocks(); ++b) {
      alive_.add({{"a_w", -1}, {"x", 3}, {"f", 1}, {"s", 2}});
      if (p_.clean_hooks) alive_.add({{"g", -1}, {"x", 4}, {"k", 2}, {"f", 2}});
      run("w_n", "x", {{"x", b > 0}, {"s", 1}});
      run("w_q", "x", {});
      run("w_k", "k", {});
      run("w_k", "k", {{"x", 1}});
      run("w_q", "x", {{"x", p_.release}});
      run("w_n", "x", {{"x", 1}, {"s", 1}});
      run("w_f", "f", {});
      run("w_f", "f", {{"x", 1}});
      const bool in_buffer = !s.last && b + 1 == s.blocks();
      run("w_f", "x", {{"f", 1}, {"x", p_.clean_hooks && in_buffer ? -1 : 0}});
      if (fresh) alive_.add({{"w_n", -2}, {"w_q", -2}, {"w_k", -2}, {"w_f", -3}, {"W", 1}});
    }
    if (s.last) run("w_n", "x", {{"x", 1}, {"s", 1}});
    if (s.last) run("w_v", "logits", {{"x", 1}});
    if (!p_.release) alive_.add({{"a_n", -s.blocks()}});
    alive_.add(led_to(s));
  }

  const Sizes z_;
  const StagePolicy p_;
  const reference::AttentionPlan a_;
  std::map<std::string, std::vector<Bytes>> bytes_;  // tensors of a symbol
  Alive alive_;
  std::string name_;
  std::vector<FormMoment> moments_;
  std::set<std::string> texts_;  // of these
};

}  // namespace

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank) {
  const auto& policy = variants()[variant.name];
  const auto device = current_device_facts();
  const auto schedule = schedule_of(trial);
  const auto odd = trial["block"] + trial["norm"] + trial["habits"] + trial["checkpointing"];
  if (variant.role == Role::control || policy.one_weight_task || trial.steps < 2 || odd > 0 ||
      !splits_backward(schedule.kind) || Sizes(trial).attention(device).split_output > 0 ||
      schedule.rank_of(schedule.stages - 1) != rank || schedule.rank_of(0) == rank)
    return {};
  return Rank(trial, policy, rank, device).forms();
}

}  // namespace tidemark::zero_bubble_detach
