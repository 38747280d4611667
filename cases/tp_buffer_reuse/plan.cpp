// The replay: what a stage of tensor-parallel blocks and Adam take and give back, on the model of
// autograd, run through the model of the allocator. Nothing here is measured, or read from the
// program.
#include <utility>
#include <vector>

#include "cases/device_facts.h"
#include "cases/kept.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "harness/judge/form.h"
#include "reference/memory/autograd_operators.h"

namespace tidemark::tp_buffer_reuse {
namespace {

using namespace reference::autograd;

/// The blocks of one rank. A gathered activation has `whole` bytes, a rank's rows of it `shard`.
class Blocks : Operators {
 public:
  Blocks(Autograd& autograd, const Dimensions& d, const Policy& policy,
         const reference::DeviceFacts& device)
      : Operators(autograd, device),
        whole(d.rows() * d.hidden * d.element()),
        shard(whole / d.ranks),
        d_(d),
        policy_(policy),
        attention_(d.attention(), device),
        qkv_(d.rows() * d.qkv() * d.element()),
        half_(d.rows() * d.own_ffn() * d.element()) {}

  /// First norm; queries, keys and values; after attention; second norm; gate and up; down.
  std::vector<std::int64_t> parameters() const {
    const auto row = d_.hidden * d_.element(), down = row * d_.own_ffn();
    return {row, row * d_.qkv(), row * d_.own_heads() * d_.head(), row, 2 * down, down};
  }

  Tensor block(const Tensor& x, const Tensors& p) {
    const Tensor merged = column_linear(rms_norm(x, p[0]), p[1], qkv_);
    const Tensor attended = causal_attention(merged);
    const Tensor middle = add(x, row_linear(attended, p[2]));
    const Tensor wide = column_linear(rms_norm(middle, p[3]), p[4], 2 * half_);
    return add(middle, row_linear(swiglu(wide), p[5]));
  }

  const std::int64_t whole, shard;

 private:
  Tensor column_linear(const Tensor& x, const Tensor& weight, std::int64_t bytes) {
    if (d_.ranks == 1) return linear(x, weight, bytes);
    if (policy_.gather == GatherPolicy::separate)
      return linear(apply({x}, {}, whole, making(shard)), weight, bytes);
    // All that a Function makes lives until it returns.
    const auto backward = [this](const Tensor&, const Tensors& saved, const auto&) {
      // Overlapping, the product of the weight's gradient runs beside the reduce-scatter, else it
      // comes first.
      Tensor dweight;
      if (!policy_.overlaps()) dweight = product(saved[1]->bytes);
      const Tensor dtotal = product(whole), dx = autograd_.make(shard);
      if (!dweight) dweight = product(saved[1]->bytes);
      return Tensors{dx, dweight};
    };
    const Tensor total = policy_.recomputes() ? x : autograd_.make(whole);
    return result(autograd_.node({x, weight}, {total, weight}, backward), product(bytes));
  }

  Tensor row_linear(const Tensor& x, const Tensor& weight) {
    if (d_.ranks == 1) return linear(x, weight, whole);
    if (!policy_.overlaps()) return apply({linear(x, weight, whole)}, {}, shard, making(whole));
    // The Function computes the input's gradient first.
    const auto backward = [this](const Tensor&, const Tensors& saved, const auto&) {
      return Tensors{product(saved[0]->bytes), product(saved[1]->bytes)};
    };
    const Tensor partial = product(whole);
    return result(autograd_.node({x, weight}, {x, weight}, backward), autograd_.make(shard));
  }

  Tensor swiglu(const Tensor& merged) {
    if (policy_.fused_glu) return apply({merged}, {merged}, half_, making(merged->bytes));
    const Tensors halves = split(merged, {half_, half_});
    return multiply(activation(halves[0]), halves[1]);
  }

  // Single precision wants the batch outermost: the output and the three gradients are copied. In
  // half precision, backward copies the output.
  Tensor causal_attention(const Tensor& merged) {
    const auto& a = attention_;
    const bool batch = d_.batch > 1, moves = batch && !d_.bf16;
    Tensors parts = split(merged, {a.queries, a.keys, a.keys});
    for (auto& part : parts) {
      if (a.repeats && part != parts[0])  // keys and values
        part = repeat(part, a);
      else if (moves)
        part = view(part);
    }
    const Tensor output = attention(parts[0], parts[1], parts[2], a, !batch ? 0 : d_.bf16 ? 2 : 1);
    return moves ? apply({output}, {}, a.queries, passing_on()) : output;
  }

  const Dimensions d_;
  const Policy policy_;
  const reference::AttentionPlan attention_;
  const std::int64_t qkv_, half_;  // bytes: queries, keys and values; an activation of the GLU
};

// Nothing ever waits for another stream, so every schedule is the instant one.
class Plan : reference::Replay {
  using Tensor = reference::autograd::Tensor;

 public:
  Plan(const Dimensions& d, const Policy& policy, const reference::DeviceFacts& device)
      : Replay(device, d.ranks, true),
        d_(d),
        autograd_(memory_),
        blocks_(autograd_, d, policy, device),
        parameters_(static_cast<std::size_t>(d.layers)) {
    for (auto& weights : parameters_)
      for (const auto bytes : blocks_.parameters()) {
        weights.push_back(autograd_.make(bytes));
        if (!d.main_weights) continue;
        weights.back()->consumes = true;
        take(updated(bytes)), take(updated(bytes));
      }
    if (d.ranks > 1 && policy.recomputes()) {
      if (policy.overlaps()) take(blocks_.whole);
      take(blocks_.whole);
    }
    take(4);                  // the loss
    if (d.clip > 0) take(4);  // the norm
  }

  reference::Predicted run(int steps) {
    for (int i = 0; i < steps; ++i) step(i == 0);
    return std::move(predicted_);
  }

 private:
  void step(bool first) {
    for (std::int64_t round = 0; round < d_.rounds; ++round) {
      begin("forward" + d_.suffix(round));
      std::vector<Microbatch> in_flight;
      for (std::int64_t i = 0; i < d_.in_flight; ++i) in_flight.push_back(forward());
      begin("backward" + d_.suffix(round));
      for (auto& microbatch : in_flight) backward(std::exchange(microbatch, {}));
    }
    begin("optimizer");
    optimizer(first);
    begin("zero_grad");
    for (const auto& weights : parameters_)
      for (const auto& weight : weights) weight->gradient.reset();
    end();
  }

  /// Its input is a leaf, and keeps its gradient.
  struct Microbatch {
    Tensor input, output;
  };

  Microbatch forward() {
    const Tensor input = autograd_.make(blocks_.shard);
    Tensor x = input;
    for (const auto& weights : parameters_) x = blocks_.block(x, weights);
    passing(d_.element());  // a square
    return {input, x};
  }

  void backward(const Microbatch& microbatch) {
    autograd_.run({gradient_node(microbatch.output)}, {autograd_.make(blocks_.shard)}, {}, false);
  }

  void optimizer(bool first) {
    Tensors roots;
    if (d_.clip > 0)
      for (const auto& weights : parameters_)
        for (std::size_t k = 0; k < weights.size(); ++k) passing(d_.updated());  // a square
    for (const auto& weights : parameters_)
      for (const auto& weight : weights)
        if (first) take(updated(weight->bytes)), take(updated(weight->bytes));  // both moments
    for (const auto& weights : parameters_)
      for (const auto& weight : weights) roots.push_back(autograd_.make(updated(weight->bytes)));
  }

  /// Bytes of a weight of Adam that belongs to a parameter of `bytes`.
  std::int64_t updated(std::int64_t bytes) const { return bytes / d_.element() * d_.updated(); }

  const Dimensions d_;
  Autograd autograd_;
  Blocks blocks_;
  std::vector<Tensors> parameters_;  // by block
};

}  // namespace

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int /*rank*/) {
  const auto policy = claim_of(variant);
  if (!policy) return {};
  static Kept<reference::Predicted> kept;
  Trial instant = trial;  // nothing waits for another stream, so schedules do not differ
  instant.schedule = "instant";
  const auto& predicted = kept.of(instant, variant.name, /*rank=*/0, [&] {
    return Plan(Dimensions(trial), *policy, current_device_facts()).run(trial.steps);
  });
  std::vector<Expectation> all;
  for (const auto& [phase, levels] : predicted.phases)
    if (phase != "zero_grad") append(all, replayed(phase, levels, /*ends=*/true));
  return all;
}

}  // namespace tidemark::tp_buffer_reuse
