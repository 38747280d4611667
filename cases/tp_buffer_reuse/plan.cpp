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
    for (auto& block : blocks_) {
      const auto norm = bytes(1), down_bytes = bytes(d.own_ffn());
      block.weights = {{norm}, {bytes(d.qkv())}, {bytes(d.own_heads() * d.head())},
                       {norm}, {2 * down_bytes}, {down_bytes}};
      for (const auto& weight : block.weights) take(weight.bytes);
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
    Handle gradient = nullptr;
  };
  struct Block {
    std::vector<Weight> weights;
  };
  /// Memory that a block keeps of a microbatch. `x` is the input of its first half, `middle` of its
  /// second.
  struct Half {
    Handle x, statistics, gathered;  // of the norm, and what the column linear saves
  };
  struct Saved {
    Half attention, mlp;
    Handle merged, keys, values, output, copied, log_sum_exp, random[2];
    Handle gate_up, silu, active;
  };
  struct Microbatch {
    std::vector<Saved> blocks;
    Handle output;
  };

  void step(bool first) {
    for (std::int64_t round = 0; round < d_.rounds; ++round) {
      begin("forward" + d_.suffix(round));
      std::vector<Microbatch> in_flight;
      for (std::int64_t i = 0; i < d_.in_flight; ++i) in_flight.push_back(forward());
      begin("backward" + d_.suffix(round));
      for (auto& microbatch : in_flight) backward(microbatch);
    }
    begin("optimizer");
    optimizer(first);
    begin("zero_grad");
    for (auto& block : blocks_) {
      for (auto& weight : block.weights) drop(weight.gradient);
    }
    end();
  }

  // --- forward

  /// The norm and what the column linear saves; `y` is its output.
  Half column_forward(Handle x, std::int64_t output, Handle& y) {
    Handle normal = take(shard_);
    Half half{x, take(statistics_), nullptr};
    const bool gathers = d_.ranks > 1 && !policy_.recomputes();
    half.gathered = gathers ? take(whole_) : std::exchange(normal, nullptr);
    y = take(output);
    multiplied(forward_multiplied_);
    drop(normal);
    return half;
  }

  /// x + row linear.
  Handle row_forward() {
    Handle partial = take(whole_);
    Handle y = d_.ranks > 1 ? take(shard_) : std::exchange(partial, nullptr);
    drop(partial);
    const auto sum = take(shard_);
    drop(y);
    return sum;
  }

  void attention_forward(Saved& s) {
    if (attention_.copies) {
      s.keys = take(attention_.queries);
      s.values = take(attention_.queries);
    }
    s.output = take(attention_.queries);
    s.log_sum_exp = take(attention_.statistics);
    if (d_.bf16) {
      Handle parts[] = {take(attention_.split_statistics), take(attention_.split_output)};
      s.random[0] = take(16);
      s.random[1] = take(8);
      for (auto& part : parts) drop(part);
    } else if (d_.batch > 1) {
      s.copied = take(attention_.queries);  // its output has the batch outermost
    }
  }

  Microbatch forward() {
    Microbatch microbatch{{}, take(shard_)};
    auto& x = microbatch.output;
    for (std::int64_t i = 0; i < d_.layers; ++i) {
      Saved s{};
      s.attention = column_forward(x, merged_, s.merged);
      attention_forward(s);
      const auto middle = row_forward();
      s.mlp = column_forward(middle, 2 * half_, s.gate_up);
      if (!policy_.fused_glu) s.silu = take(half_);
      s.active = take(half_);
      x = row_forward();
      microbatch.blocks.push_back(s);
    }
    passing(d_.element());  // a square
    return microbatch;
  }

  // --- backward

  /// The first microbatch's gradient stays, a later one's is added and freed.
  void accumulate(Weight& weight, Handle gradient) {
    if (!weight.gradient) {
      weight.gradient = gradient;
    } else {
      drop(gradient);
    }
  }

  /// Returns the gradient of the row linear's input.
  Handle row_backward(Weight& weight, std::int64_t input, Handle& saved) {
    const bool buffered = policy_.overlaps();
    Handle gathered = d_.ranks > 1 && !buffered ? take(whole_) : nullptr;
    Handle dx, dw;
    const auto product = [&](Handle& to, std::int64_t bytes) {
      to = take(bytes);
      multiplied(backward_multiplied_);
    };
    // Autograd's product computes the weight's gradient first, the Function the input's.
    if (d_.ranks > 1 && buffered) {
      product(dx, input);
      product(dw, weight.bytes);
    } else {
      product(dw, weight.bytes);
      product(dx, input);
    }
    drop(gathered);
    drop(saved);
    accumulate(weight, dw);
    return dx;
  }

  /// Consumes dy; returns the gradient of the column linear's sharded input.
  Handle column_backward(Weight& weight, Handle dy, Handle& saved) {
    if (d_.ranks == 1 || policy_.gather == GatherPolicy::separate) {
      const auto dw = take(weight.bytes);
      Handle dx = take(whole_);
      drop(dy);
      drop(saved);
      accumulate(weight, dw);
      if (d_.ranks == 1) return dx;
      const auto scattered = take(shard_);
      drop(dx);
      return scattered;
    }
    // One Function: all that it makes is alive until it returns. Overlapping, the product of the
    // weight's gradient runs beside the reduce-scatter, else it comes first.
    Handle dx, scattered, dw;
    if (policy_.overlaps()) {
      dx = take(whole_);
      scattered = take(shard_);
      dw = take(weight.bytes);
    } else {
      dw = take(weight.bytes);
      dx = take(whole_);
      scattered = take(shard_);
    }
    drop(dx);
    drop(dy);
    drop(saved);
    accumulate(weight, dw);
    return scattered;
  }

  /// Adds the norm's gradient to `residual`: in place, or, where the caller still holds it, in new
  /// memory.
  Handle norm_backward(Weight& weight, Half& half, Handle dy, Handle residual, bool held,
                       bool first_block) {
    Handle dx = take(shard_);
    const auto dw = take(weight.bytes);
    drop(dy);
    if (!first_block) drop(half.x);  // the stage's input is the caller's
    drop(half.statistics);
    if (held) residual = take(shard_);
    drop(dx);
    accumulate(weight, dw);
    return residual;
  }

  /// Returns the gradient of gate and up.
  Handle glu_backward(Saved& s, Handle dy) {
    if (policy_.fused_glu) {
      const auto result = take(2 * half_);
      drop(dy);
      drop(s.gate_up);
      return result;
    }
    Handle dup = take(half_), dsilu = take(half_);  // autograd computes the second factor's first
    drop(dy);
    drop(s.silu);
    Handle dgate = take(half_);
    drop(dsilu);
    drop(s.gate_up);
    const auto result = take(2 * half_);
    drop(dgate);
    drop(dup);
    return result;
  }

  /// Returns the gradient of queries, keys and values.
  Handle attention_backward(Saved& s, Handle dy) {
    const auto& a = attention_;
    Handle copies[2] = {};
    if (d_.batch > 1) {  // of the gradient and, in half precision, of the output
      copies[0] = take(a.queries);
      if (d_.bf16) copies[1] = take(a.queries);
    }
    const auto keys = a.repeats ? a.queries : a.keys;
    Handle dq = take(a.queries), dk = take(keys), dv = take(keys);
    if (d_.bf16) {
      Handle delta = take(a.delta), sum = take(a.workspace);
      Handle whole[2] = {};
      if (d_.heads != d_.kv_heads) {
        for (auto& w : whole) w = take(a.queries);
      }
      for (auto& w : whole) drop(w);
      drop(sum);
      drop(delta);
    } else {
      Handle product = take(a.queries), delta = take(a.delta);
      if (d_.own_heads() > 1) {
        const auto by_head = take(a.delta);
        drop(delta);
        delta = by_head;
      }
      drop(product);
      passing(a.workspace);
      drop(delta);
    }
    for (auto& copy : copies) drop(copy);
    drop(dy);
    for (auto* saved :
         {&s.merged, &s.keys, &s.values, &s.output, &s.log_sum_exp, &s.random[0], &s.random[1]}) {
      drop(*saved);
    }
    if (a.repeats ||
        (!d_.bf16 && d_.batch > 1)) {  // summed over the repeats, or the batch moved in
      replace(dv, take(a.keys));
      replace(dk, take(a.keys));
    }
    if (!d_.bf16 && d_.batch > 1) replace(dq, take(a.queries));
    const auto result = take(merged_);
    for (auto* gradient : {&dq, &dk, &dv}) drop(*gradient);
    return result;
  }

  void backward(Microbatch& microbatch) {
    Handle dy = take(shard_), gradient = dy;
    Handle input = microbatch.blocks[0].attention.x;
    for (auto i = blocks_.size(); i-- > 0;) {
      auto& s = microbatch.blocks[i];
      auto& w = blocks_[i].weights;
      const auto dactive = row_backward(w[kDown], half_, s.active);
      const auto dmlp = column_backward(w[kGateUp], glu_backward(s, dactive), s.mlp.gathered);
      gradient = norm_backward(w[kSecondNorm], s.mlp, dmlp, gradient, gradient == dy, false);
      const auto dattended = row_backward(w[kOut], attention_.queries, s.copied);
      const auto dmerged = attention_backward(s, dattended);
      const auto dfirst = column_backward(w[kQkv], dmerged, s.attention.gathered);
      gradient = norm_backward(w[kFirstNorm], s.attention, dfirst, gradient, false, i == 0);
    }
    for (auto* last : {&dy, &gradient, &input, &microbatch.output}) drop(*last);
  }

  void optimizer(bool first) {
    for (const auto& block : blocks_) {
      for (const auto& weight : block.weights) {
        if (first) take(weight.bytes), take(weight.bytes);  // both moments
      }
    }
    std::vector<Handle> roots;
    for (const auto& block : blocks_) {
      for (const auto& weight : block.weights) roots.push_back(take(weight.bytes));
    }
    for (auto& root : roots) drop(root);
  }

  const Dimensions d_;
  const Policy policy_;
  const reference::AttentionPlan attention_;
  const std::int64_t whole_, shard_, statistics_, merged_,
      half_;  // bytes: a gathered activation, a shard, a norm's statistics, queries, keys and
              // values, a GLU activation
  std::vector<Block> blocks_;
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
