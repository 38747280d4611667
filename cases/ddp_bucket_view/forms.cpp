// Blocks are numbered 1 to L. A block keeps three activations for backward (its input, the wide
// one, and gelu's result), and x stands for each. Forward is highest at its last operator: n of
// both norms, 3*L of the blocks, the last block's result and the output.
// Backward holds, beside the loss's gradient, that of an activation on its way and
//   at the last norm      n of both, 3*L*x and the norm's input, its gradient w
//   at block i, second    n, 3*i*x, the new gradient d and that of gelu's result
//   at block i, first     n, (3*i - 1)*x, the new gradient d and that of the block's input
// where gradients live on, those of the norm (w) and of the blocks behind (2*d each) besides, and
// in the first layer that of the second: the sum is linear in i, so it is highest at block L or 1.
// A view has its bytes in the bucket, hence in `rest`; beside it lives only the gradient that an
// operator has just computed.
#include <numeric>
#include <set>

#include "cases/ddp_bucket_view/policy.h"
#include "cases/device_facts.h"
#include "harness/judge/form.h"

namespace tidemark::ddp_bucket_view {
namespace {

Vocabulary amounts(const Trial& trial, const Policy& policy) {
  Vocabulary paper;
  const auto layers = static_cast<std::size_t>(trial["layers"]);
  const Bytes rows = trial["rows"], hidden = trial["hidden"], x = 4 * rows * hidden;
  const auto each = gradient_bytes(trial);
  paper.count("L", static_cast<double>(layers));
  paper.tensors("x", {x});
  paper.tensors("n", {4 * rows, 4 * rows});
  paper.tensors("loss", {4});
  paper.tensors("w", {each.front()});
  paper.tensors("d", {each[1]});
  for (const char* like : {"G", "Q", "rest", "rest", "rest"}) paper.tensors(like, each);
  paper.tensors("rest", bucket_bytes(trial));
  paper.tensors("rest", {x, x, 4});
  paper.tensors("rest", std::vector(2, Bytes{current_device_facts().workspace_bytes}));
  // In no sum, but later blocks are cut from its segment.
  if (policy.rebuilds)
    paper.tensors("whole", {std::accumulate(each.begin(), each.end(), Bytes{0})});
  return paper;
}

std::vector<FormMoment> backward(Bytes layers, bool own) {
  std::vector<FormMoment> all{{"the last norm's gradient", "rest + loss + 2*n + w + (3*L + 3)*x"}};
  const std::string base = own ? "rest + loss + n + w" : "rest + loss + n";
  for (const Bytes i : std::set<Bytes>{1, layers}) {
    const std::string behind = own && i < layers ? " + 2*(L - i)*d" : "";
    const std::string block = "block " + std::to_string(i) + ": gradient of the ";
    const std::map<std::string, double> counts{{"i", static_cast<double>(i)}};
    all.push_back({block + "second layer", base + behind + " + d + (3*i + 2)*x", counts});
    all.push_back({block + "first layer",
                   base + behind + (own ? " + 2*d" : " + d") + " + (3*i + 1)*x", counts});
  }
  return all;
}

}  // namespace

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int /*rank*/) {
  const Policy& policy = variants()[variant.name];
  if (policy.gradients == Gradients::unwatched || trial.steps < 2) return {};
  const auto paper = amounts(trial, policy);
  const bool own = policy.gradients == Gradients::separate;
  std::vector<Expectation> all;
  const auto add = [&](const char* phase, bool at_end, const std::vector<FormMoment>& moments) {
    append(all, paper.forms(phase, at_end, kOnPaper, moments));
  };
  const std::string after = own ? "rest + G" : "rest";
  add("forward", false, {{"the output", "rest + 2*n + (3*L + 2)*x"}});
  add("backward", false, backward(trial["layers"], own));
  add("backward", true, {{"every gradient computed", after}});
  add("optimizer", false, {{"Adam's temporaries", after + " + Q"}});
  add("optimizer", true, {{"until the next step", after}});
  return all;
}

std::vector<Symbol> symbols() {
  using enum MemoryKind;
  return {{"rest",
           "what stays between steps: parameters, Adam's two moments, buckets, input, output, "
           "loss, two cuBLAS workspaces",
           {parameters, optimizer_state, persistent_buffers, inputs, outputs, workspaces}},
          {"L", "number of blocks"},
          {"i", "number of the block that works at the highest moment, from 1"},
          {"x", "one activation of this rank", {activations, gradients}},
          {"n", "statistics of one norm: mean and reciprocal deviation", {activations}},
          {"loss", "the gradient of the loss", {gradients}},
          {"w", "gradient of one norm's weight", {gradients}},
          {"d", "gradient of one matrix", {gradients}},
          {"G", "gradients of all parameters, as tensors of their own", {gradients}},
          {"Q", "Adam's temporaries: one square root for each parameter", {optimizer_temporaries}}};
}

}  // namespace tidemark::ddp_bucket_view
