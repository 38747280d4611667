#include "harness/parallel/tensor_parallel_functions.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "harness/parallel/tensor_parallel.h"

namespace tidemark {
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

at::Tensor gathered(TensorParallel& group, const at::Tensor& x) {
  return group.gather(x, group.output(kAllGather, x.size(0) * group.ranks(), x));
}
at::Tensor reduced(TensorParallel& group, const at::Tensor& x) {
  return group.reduce_scatter(x, group.output(kReduceScatter, x.size(0) / group.ranks(), x));
}

struct AllGather : Function<AllGather> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, TensorParallel* group) {
    keep(ctx, group);
    return gathered(*group, x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    return {reduced(kept(ctx), gradients[0]), at::Tensor()};
  }
};

struct ReduceScatter : Function<ReduceScatter> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, TensorParallel* group) {
    keep(ctx, group);
    return reduced(*group, x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    return {gathered(kept(ctx), gradients[0]), at::Tensor()};
  }
};

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
    return {reduced(group, dtotal), dweight, at::Tensor()};
  }
  static at::Tensor whole(TensorParallel& group, const at::Tensor& x) {
    if (group.policy() != GatherPolicy::recomputed) return gathered(group, x);
    return group.gather(x, group.input_buffer(x.size(0) * group.ranks(), x));
  }
};

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
    const auto dx = group.output(kReduceScatter, x.size(0), x);
    auto scatter = communicator.reduce_scatter_into(dx, dtotal, Reduction::sum, {.async = true});
    dtotal.reset();
    gather->wait();
    const auto dweight = at::mm(dy.t(), total);
    scatter->wait();
    return {dx, dweight, at::Tensor()};
  }
};

struct AsyncRowLinear : Function<AsyncRowLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            TensorParallel* group) {
    keep(ctx, group);
    ctx->save_for_backward({x, weight});
    const auto partial = at::mm(x, weight);
    const auto y = group->output(kReduceScatter, x.size(0) / group->ranks(), partial);
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

at::Tensor all_gather_function(const at::Tensor& x, TensorParallel& group) {
  return AllGather::apply(x, &group);
}
at::Tensor reduce_scatter_function(const at::Tensor& x, TensorParallel& group) {
  return ReduceScatter::apply(x, &group);
}
at::Tensor column_linear_function(const at::Tensor& x, const at::Tensor& weight,
                                  TensorParallel& group) {
  return ColumnLinear::apply(x, weight, &group);
}
at::Tensor async_column_linear_function(const at::Tensor& x, const at::Tensor& weight,
                                        TensorParallel& group) {
  return AsyncColumnLinear::apply(x, weight, &group);
}
at::Tensor async_row_linear_function(const at::Tensor& x, const at::Tensor& weight,
                                     TensorParallel& group) {
  return AsyncRowLinear::apply(x, weight, &group);
}

}  // namespace tidemark
