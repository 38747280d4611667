// The replay: what the operators, the tensor-parallel layers, autograd and Adam take and give back,
// one by one, run through the model of the allocator. Nothing here is measured, or read from the
// program.
#include <utility>
#include <vector>

#include "cases/device_facts.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "harness/judge/form.h"
#include "reference/memory/replay.h"

namespace tidemark::tp_buffer_reuse {
namespace {

// Nothing ever waits for another stream, so every schedule is the instant one.
class Plan : reference::Replay {
 public:
  Plan(const Dimensions& d, const Policy& policy, const reference::DeviceFacts& device)
      : Replay(device, d.ranks, true),
        d_(d),
        policy_(policy),
        attention_(d.attention(), device),
        whole_(d.rows() * d.hidden * d.element()),
        shard_(d.shard_rows() * d.hidden * d.element()),
        statistics_(d.shard_rows() * 4),
        merged_(d.rows() * d.qkv() * d.element()),
        half_(d.rows() * d.own_ffn() * d.element()),
        blocks_(static_cast<std::size_t>(d.layers)) {
    const auto bytes = [&](std::int64_t rows) { return rows * d.hidden * d.element(); };
    for (auto& weights : blocks_) {
      const auto norm = bytes(1), down = bytes(d.own_ffn());
      for (const auto each :
           {norm, bytes(d.qkv()), bytes(d.own_heads() * d.head()), norm, 2 * down, down}) {
        take(each);
        weights.push_back({each});
      }
    }
    if (d.ranks > 1 && policy.recomputes()) {
      if (policy.overlaps()) take(whole_);
      take(whole_);
    }
    take(4);  // the loss
  }

  reference::Predicted run(int steps) {
    for (int i = 0; i < steps; ++i) step(i == 0);
    return std::move(predicted_);
  }

 private:
  enum Which { kFirstNorm, kQkv, kOut, kSecondNorm, kGateUp, kDown };
  struct Weight {
    std::int64_t bytes;
    Tensor gradient = {};
  };
  /// Memory that half a block keeps of a microbatch: input and statistics of its norm, and what its
  /// column linear saves.
  struct Half {
    Tensor x, statistics, gathered;
  };
  struct Attended {
    Tensor merged, keys, values, output, log_sum_exp, random[2];
  };
  struct Saved {
    Half attention, mlp;
    Attended attended;
    Tensor copied, gate_up, silu, active;
  };
  struct Microbatch {
    Tensor input, output;
    std::vector<Saved> blocks;
  };

  void step(bool first) {
    for (std::int64_t round = 0; round < d_.rounds; ++round) {
      begin("forward" + d_.suffix(round));
      std::vector<Microbatch> in_flight;
      for (std::int64_t i = 0; i < d_.in_flight; ++i) in_flight.push_back(forward());
      begin("backward" + d_.suffix(round));
      for (auto& microbatch : in_flight) backward(std::move(microbatch));
    }
    begin("optimizer");
    optimizer(first);
    begin("zero_grad");
    for (auto& weights : blocks_)
      for (auto& weight : weights) weight.gradient.reset();
    end();
  }

  // --- forward

  /// The norm and what the column linear saves; `y` is its output.
  Half column_forward(const Tensor& x, std::int64_t output, Tensor& y) {
    Tensor normal = hold(shard_);
    Half half{x, hold(statistics_), {}};
    const bool gathers = d_.ranks > 1 && !policy_.recomputes();
    half.gathered = gathers ? hold(whole_) : std::move(normal);
    y = hold(output);
    multiplied(forward_multiplied_);
    return half;
  }

  /// x + row linear.
  Tensor row_forward() {
    Tensor partial = hold(whole_);
    const Tensor y = d_.ranks > 1 ? hold(shard_) : std::move(partial);
    partial.reset();
    return hold(shard_);
  }

  void attention_forward(Saved& s) {
    auto& a = s.attended;
    if (attention_.copies) {
      a.keys = hold(attention_.queries);
      a.values = hold(attention_.queries);
    }
    a.output = hold(attention_.queries);
    a.log_sum_exp = hold(attention_.statistics);
    if (d_.bf16) {
      const Tensor parts[] = {hold(attention_.split_statistics), hold(attention_.split_output)};
      a.random[0] = hold(16);
      a.random[1] = hold(8);
    } else if (d_.batch > 1) {
      s.copied = hold(attention_.queries);  // its output has the batch outermost
    }
  }

  Microbatch forward() {
    Microbatch microbatch{.input = hold(shard_), .output = {}, .blocks = {}};
    Tensor x = microbatch.input;
    for (std::int64_t i = 0; i < d_.layers; ++i) {
      auto& s = microbatch.blocks.emplace_back();
      s.attention = column_forward(x, merged_, s.attended.merged);
      attention_forward(s);
      s.mlp = column_forward(row_forward(), 2 * half_, s.gate_up);
      if (!policy_.fused_glu) s.silu = hold(half_);
      s.active = hold(half_);
      x = row_forward();
    }
    microbatch.output = x;
    passing(d_.element());  // a square
    return microbatch;
  }

  // --- backward

  /// The first microbatch's gradient stays, a later one's is added and freed.
  static void accumulate(Weight& weight, Tensor gradient) {
    if (!weight.gradient) weight.gradient = std::move(gradient);
  }

  /// Returns the gradient of the row linear's input.
  Tensor row_backward(Weight& weight, std::int64_t input, Tensor& saved) {
    const bool buffered = policy_.overlaps();
    const Tensor gathered = d_.ranks > 1 && !buffered ? hold(whole_) : nullptr;
    const auto product = [&](std::int64_t bytes) {
      Tensor made = hold(bytes);
      multiplied(backward_multiplied_);
      return made;
    };
    // Autograd's product computes the weight's gradient first, the Function the input's.
    Tensor dx, dw;
    if (d_.ranks > 1 && buffered) dx = product(input);
    dw = product(weight.bytes);
    if (!dx) dx = product(input);
    saved.reset();
    accumulate(weight, std::move(dw));
    return dx;
  }

  /// Returns the gradient of the column linear's sharded input.
  Tensor column_backward(Weight& weight, Tensor dy, Tensor& saved) {
    const bool function = d_.ranks > 1 && policy_.gather != GatherPolicy::separate;
    // Overlapping, the product of the weight's gradient runs beside the reduce-scatter, else it
    // comes first.
    Tensor dx, scattered, dw;
    if (!policy_.overlaps()) dw = hold(weight.bytes);
    dx = hold(whole_);
    if (function) scattered = hold(shard_);  // all that a Function makes lives until it returns
    if (!dw) dw = hold(weight.bytes);
    dy.reset();
    saved.reset();
    accumulate(weight, std::move(dw));
    if (d_.ranks == 1) return dx;
    return scattered ? scattered : hold(shard_);
  }

  /// Adds the norm's gradient to `residual`: in place, or, where the caller still holds it, in new
  /// memory.
  void norm_backward(Weight& weight, Half& half, Tensor dy, Tensor& residual) {
    const Tensor dx = hold(shard_);
    Tensor dw = hold(weight.bytes);
    dy.reset();
    half = {};
    if (residual.use_count() > 1) residual = hold(shard_);
    accumulate(weight, std::move(dw));
  }

  /// Returns the gradient of gate and up.
  Tensor glu_backward(Saved& s, Tensor dy) {
    if (policy_.fused_glu) {
      const Tensor result = hold(2 * half_);
      s.gate_up.reset();
      return result;
    }
    const Tensor dup = hold(half_);  // autograd computes the second factor's first
    Tensor dsilu = hold(half_);
    dy.reset();
    s.silu.reset();
    const Tensor dgate = hold(half_);
    dsilu.reset();
    s.gate_up.reset();
    return hold(2 * half_);
  }

  /// Returns the gradient of queries, keys and values.
  Tensor attention_backward(Saved& s, Tensor dy) {
    const auto& a = attention_;
    const auto keys = a.repeats ? a.queries : a.keys;
    const bool moves = !d_.bf16 && d_.batch > 1;
    std::vector<Tensor> copies;  // of the gradient and, in half precision, of the output
    if (d_.batch > 1) copies.push_back(hold(a.queries));
    if (d_.batch > 1 && d_.bf16) copies.push_back(hold(a.queries));
    Tensor dq = hold(a.queries), dk = hold(keys), dv = hold(keys);
    if (d_.bf16) {
      const Tensor delta = hold(a.delta), sum = hold(a.workspace);
      std::vector<Tensor> whole;
      if (d_.heads != d_.kv_heads) whole = {hold(a.queries), hold(a.queries)};
    } else {
      Tensor product = hold(a.queries), delta = hold(a.delta);
      if (d_.own_heads() > 1) delta = hold(a.delta);  // by head
      product.reset();
      passing(a.workspace);
    }
    copies.clear();
    dy.reset();
    s.attended = {};
    if (a.repeats || moves) {  // summed over the repeats, or the batch moved in
      dv = hold(a.keys);
      dk = hold(a.keys);
    }
    if (moves) dq = hold(a.queries);
    return hold(merged_);
  }

  void backward(Microbatch microbatch) {
    const Tensor dy = hold(shard_);
    Tensor gradient = dy;
    for (auto i = blocks_.size(); i-- > 0;) {
      auto& s = microbatch.blocks[i];
      auto& w = blocks_[i];
      Tensor down = row_backward(w[kDown], half_, s.active);
      down = glu_backward(s, std::move(down));
      down = column_backward(w[kGateUp], std::move(down), s.mlp.gathered);
      norm_backward(w[kSecondNorm], s.mlp, std::move(down), gradient);
      down = row_backward(w[kOut], attention_.queries, s.copied);
      down = attention_backward(s, std::move(down));
      down = column_backward(w[kQkv], std::move(down), s.attention.gathered);
      norm_backward(w[kFirstNorm], s.attention, std::move(down), gradient);
    }
  }

  void optimizer(bool first) {
    std::vector<Tensor> roots;
    for (const auto& weights : blocks_)
      for (const auto& weight : weights)
        if (first) take(weight.bytes), take(weight.bytes);  // both moments
    for (const auto& weights : blocks_)
      for (const auto& weight : weights) roots.push_back(hold(weight.bytes));
  }

  const Dimensions d_;
  const Policy policy_;
  const reference::AttentionPlan attention_;
  const std::int64_t whole_, shard_, statistics_, merged_,
      half_;  // bytes: a gathered activation, a shard, a norm's statistics, queries, keys and
              // values, a GLU activation
  std::vector<std::vector<Weight>> blocks_;
  bool forward_multiplied_ = false, backward_multiplied_ = false;
};

}  // namespace

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int /*rank*/) {
  const auto policy = claim_of(variant);
  if (!policy) return {};
  const auto predicted = Plan(Dimensions(trial), *policy, current_device_facts()).run(trial.steps);
  std::vector<Expectation> all;
  for (const auto& [phase, levels] : predicted.phases)
    if (phase != "zero_grad") append(all, replayed(phase, levels, /*ends=*/true));
  return all;
}

}  // namespace tidemark::tp_buffer_reuse
