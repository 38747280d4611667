// The autograd Functions of tensor parallelism: what each saves and which collectives it calls is
// the whole difference between the gather policies.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cases/tp_buffer_reuse/tensor_parallel.h"

namespace tidemark::tp_buffer_reuse {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

void keep(AutogradContext* ctx, TensorParallel* group) {
  ctx->saved_data["group"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(group));
}
TensorParallel& kept(AutogradContext* ctx) {
  const auto address = static_cast<std::intptr_t>(ctx->saved_data["group"].toInt());
  return *reinterpret_cast<TensorParallel*>(address);
}

/// [rows / ranks, n] -> [rows, n]; backward reduce-scatters. Or the other way round. Saves nothing.
template <bool gathers>
struct Exchange : Function<Exchange<gathers>> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, TensorParallel* group) {
    keep(ctx, group);
    return gathers ? group->gather(x) : group->reduce_scatter(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    auto& group = kept(ctx);
    return {gathers ? group.reduce_scatter(gradients[0]) : group.gather(gradients[0]),
            at::Tensor()};
  }
};

/// All-gather and product in one. Saves the weight and what was gathered or, where the policy
/// recomputes, the shard.
struct ColumnLinear : Function<ColumnLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            TensorParallel* group) {
    keep(ctx, group);
    const auto total = whole(*group, x);
    const bool recomputes = group->policy() == GatherPolicy::recomputed;
    ctx->save_for_backward({recomputes ? x : total, weight});
    return at::mm(total, weight.t());
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    auto& group = kept(ctx);
    const auto saved = ctx->get_saved_variables();
    const auto& dy = gradients[0];
    const bool recomputes = group.policy() == GatherPolicy::recomputed;
    const auto total = recomputes ? whole(group, saved[0]) : saved[0];
    // The weight's gradient first, and all three alive together, as in nanotron's Function.
    const auto dweight = at::mm(dy.t(), total);
    const auto dtotal = at::mm(dy, saved[1]);
    return {group.reduce_scatter(dtotal), dweight, at::Tensor()};
  }
  static at::Tensor whole(TensorParallel& group, const at::Tensor& x) {
    if (group.policy() != GatherPolicy::recomputed) return group.gather(x);
    const auto total = group.input_buffer(x.size(0) * group.ranks(), x);
    group.communicator().all_gather_into(total, x.contiguous(), {});
    return total;
  }
};

/// Column linear that recomputes, with its collectives on the communicator's stream. Its second
/// gather does not wait for the current stream: its input is as old as the forward pass, and its
/// buffer is free, because a row linear's backward has gathered (and waited) after the last reader.
/// So a model must end every path from a column linear in a row linear.
struct AsyncColumnLinear : Function<AsyncColumnLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            TensorParallel* group) {
    keep(ctx, group);
    ctx->save_for_backward({x, weight});
    const auto total = group->input_buffer(x.size(0) * group->ranks(), x);
    group->communicator().all_gather_into(total, x, {.async = true})->wait();
    return at::mm(total, weight.t());
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    auto& group = kept(ctx);
    auto& communicator = group.communicator();
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &dy = gradients[0];
    const auto total = group.input_buffer(x.size(0) * group.ranks(), x);
    auto gather = communicator.all_gather_into(total, x, {.async = true, .inputs_ready = true});
    auto dtotal = at::mm(dy, weight);
    const auto dx = group.reduced_output(x.size(0), x);
    auto scatter = communicator.reduce_scatter_into(dx, dtotal, Reduction::sum, {.async = true});
    dtotal.reset();
    gather->wait();
    const auto dweight = at::mm(dy.t(), total);
    scatter->wait();
    return {dx, dweight, at::Tensor()};
  }
};

/// Product and reduce-scatter in one, collectives on the communicator's stream, the gathered
/// gradient in a persistent buffer.
struct AsyncRowLinear : Function<AsyncRowLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            TensorParallel* group) {
    keep(ctx, group);
    ctx->save_for_backward({x, weight});
    const auto partial = at::mm(x, weight);
    auto y = group->reduced_output(x.size(0) / group->ranks(), partial);
    group->communicator().reduce_scatter_into(y, partial, Reduction::sum, {.async = true})->wait();
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    auto& group = kept(ctx);
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    const auto dy = gradients[0].contiguous();
    const auto total = group.gradient_buffer(x.size(0), dy);
    group.communicator().all_gather_into(total, dy, {.async = true})->wait();
    const auto dx = at::mm(total, weight.t());
    return {dx, at::mm(x.t(), total), at::Tensor()};
  }
};

}  // namespace

at::Tensor TensorParallel::column_linear(const at::Tensor& x, const at::Tensor& weight) {
  if (ranks() == 1) return at::mm(x, weight.t());
  switch (policy_) {
    case GatherPolicy::cached:
    case GatherPolicy::recomputed:
      return ColumnLinear::apply(x, weight, this);
    case GatherPolicy::asynchronous:
    case GatherPolicy::shared:
      return AsyncColumnLinear::apply(x, weight, this);
    default: {
      const auto total = Exchange<true>::apply(x, this);  // before the transpose, as linear has it
      return at::mm(total, weight.t());
    }
  }
}

at::Tensor TensorParallel::row_linear(const at::Tensor& x, const at::Tensor& weight) {
  if (ranks() == 1) return at::mm(x, weight);
  if (policy_ == GatherPolicy::asynchronous || policy_ == GatherPolicy::shared) {
    return AsyncRowLinear::apply(x, weight, this);
  }
  return Exchange<false>::apply(at::mm(x, weight), this);
}

}  // namespace tidemark::tp_buffer_reuse
