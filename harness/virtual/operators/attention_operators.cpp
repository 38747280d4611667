// The fused attention operators, flash and memory-efficient, as calls of attention.h.
#include <cmath>

#include "harness/virtual/operators/attention.h"
#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/refusal.h"

namespace tidemark::operators {
namespace {

double scale_of(const c10::IValue& value, const at::Tensor& query) {
  return value.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : value.toDouble();
}
std::optional<std::int64_t> window(const c10::IValue& value) {
  return value.isNone() ? std::nullopt : std::make_optional(value.toInt());
}
void refuse_with(bool when, const HostCall& call, const char* what) {
  if (when)
    refuse<c10::NotImplementedError>(c10::toString(call.op.operator_name()),
                                     " has no numbers with ", what);
}
// [B, S, H, D] <-> [B, H, S, D]
at::Tensor swapped(const at::Tensor& tensor) { return tensor.transpose(1, 2); }

at::Tensor as_it_is(const at::Tensor& tensor) { return tensor; }

// [S, H, D] of all sequences <-> [1, H, S, D]
at::Tensor as_batch(const at::Tensor& tensor) { return tensor.unsqueeze(0).transpose(1, 2); }
at::Tensor end_to_end(const at::Tensor& batch) { return batch.transpose(1, 2).squeeze(0); }

// Sizes in the operators whose query, key and value are the arguments from `first` on; `order`
// brings them to [B, H, S, D].
Attention attention(const HostCall& call, at::Tensor (*order)(const at::Tensor&), std::size_t first,
                    std::size_t scale, std::size_t dropout) {
  const at::Tensor query = order(tensor_at(call, first));
  return {.query = query,
          .key = order(tensor_at(call, first + 1)),
          .value = order(tensor_at(call, first + 2)),
          .scale = scale_of(call.stack[scale], query),
          .dropout = call.stack[dropout].toDouble()};
}

// The last query sees the last key.
std::int64_t to_the_end(const Attention& a) { return a.key.size(2) - a.query.size(2); }

// The state a forward call has put in its outputs: {2} as flash writes it, or two scalars. Without
// dropout nothing has to be known of it.
RandomState saved(double dropout, const at::Tensor& seed, const at::Tensor& offset) {
  const auto read = [](const at::Tensor& t, std::int64_t i) {
    return static_cast<std::uint64_t>(t.reshape({-1})[i].view(at::kLong).item<std::int64_t>());
  };
  if (dropout == 0 || !seed.defined() || seed.numel() == 0) return {};
  return seed.numel() == 2 ? RandomState{read(seed, 0), read(seed, 1)}
                           : RandomState{read(seed, 0), read(offset, 0)};
}
// State of the random numbers in the output `place` of flash: {2}. Before PyTorch 2.7 the host code
// fills two scalars itself.
at::Tensor state_for(const HostCall& call, std::size_t place, double dropout) {
  if (dropout == 0 || call.outputs[place].toTensor().numel() != 2) return {};
  const at::Tensor both = at::empty({2}, at::kLong);
  both[0] = static_cast<std::int64_t>(call.random.seed);
  both[1] = static_cast<std::int64_t>(call.random.offset);
  return both.view(at::kUInt64);
}

// (query, key, value, dropout_p, is_causal, return_debug_mask, scale)
//   -> (output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused, debug_attn_mask)
void flash(HostCall& call) {
  auto& s = call.stack;
  refuse_with(s[5].toBool(), call, "return_debug_mask");
  Attention a = attention(call, as_it_is, 0, 6, 3);
  a.random = call.random;
  a.causal = s[4].toBool();
  a.diagonal = to_the_end(a);
  const AttentionResult r = attention_forward(a);
  const at::Tensor none;
  give(call, r.output, r.logsumexp, none, none, a.query.size(2), a.key.size(2),
       state_for(call, 6, a.dropout), none, none);
}

// (query, key, value [B, S, H, D], cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
// return_debug_mask, scale,
//  window_size_left, window_size_right, seqused_k, alibi_slopes) -> (output, logsumexp, rng_state,
//  unused, debug)
void flash_layer(HostCall& call) {
  auto& s = call.stack;
  refuse_with(tensor_at(call, 13).defined(), call, "seqused_k");
  refuse_with(tensor_at(call, 14).defined(), call, "alibi_slopes");
  refuse_with(s[9].toBool(), call, "return_debug_mask");
  const bool packed = tensor_at(call, 3).defined();
  Attention a = attention(call, packed ? as_batch : swapped, 0, 10, 7);
  a.random = call.random;
  a.causal = s[8].toBool();
  a.diagonal = to_the_end(a);
  a.left = window(s[11]);
  a.right = window(s[12]);
  const AttentionResult r =
      packed ? attention_forward(Packed{a, tensor_at(call, 3), tensor_at(call, 4), true},
                                 call.outputs[1].toTensor().sizes())
             : attention_forward(a);
  const at::Tensor none;
  give(call, packed ? end_to_end(r.output) : swapped(r.output), r.logsumexp,
       state_for(call, 2, a.dropout), none, none);
}

// (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
// is_causal, philox_seed, philox_offset, scale), of the layer's operator [B, S, H, D] with
// (..., rng_state, unused, scale, window_size_left, window_size_right)
template <at::Tensor (*order)(const at::Tensor&)>
void flash_backward(HostCall& call) {
  auto& s = call.stack;
  const bool packed = tensor_at(call, 6).defined();
  refuse_with(packed && s.size() == 15, call, "sequences of different lengths");
  Attention a = attention(call, packed ? as_batch : order, 1, 14, 10);
  a.random = saved(a.dropout, tensor_at(call, 12), tensor_at(call, 13));
  a.causal = s[11].toBool();
  a.diagonal = to_the_end(a);
  if (s.size() > 15) {
    a.left = window(s[15]);
    a.right = window(s[16]);
  }
  if (packed) {
    const auto g = attention_backward(Packed{a, tensor_at(call, 6), tensor_at(call, 7), true},
                                      as_batch(tensor_at(call, 0)), as_batch(tensor_at(call, 4)),
                                      tensor_at(call, 5));
    return give(call, end_to_end(g.query), end_to_end(g.key), end_to_end(g.value));
  }
  const auto g = attention_backward(a, order(tensor_at(call, 0)), order(tensor_at(call, 4)),
                                    tensor_at(call, 5));
  give(call, order(g.query), order(g.key), order(g.value));
}

// A scalar as the output is one, with this value; undefined where it is none.
at::Tensor scalar_like(const c10::IValue& output, std::uint64_t value) {
  if (!output.isTensor() || output.toTensor().numel() != 1) return {};
  const at::Tensor& made = output.toTensor();
  return at::full(made.sizes(), static_cast<std::int64_t>(value),
                  at::TensorOptions().dtype(made.scalar_type()));
}

// The memory-efficient kernel's logsumexp has its queries padded to a multiple of 32, or none at
// all.
at::Tensor padded(const at::Tensor& logsumexp, const at::Tensor& output) {
  if (output.size(-1) == 0) return {};
  return at::constant_pad_nd(logsumexp, {0, output.size(-1) - logsumexp.size(-1)},
                             std::numeric_limits<double>::infinity());
}

// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale)
//   -> (output, log_sumexp, philox_seed, philox_offset); from PyTorch 2.13 on a kernel fills the
//   last two, before that the host code
void efficient(HostCall& call) {
  auto& s = call.stack;
  Attention a = attention(call, as_it_is, 0, 7, 5);
  a.bias = tensor_at(call, 3);
  a.random = call.random;
  a.causal = s[6].toBool();
  const AttentionResult r = attention_forward(a);
  give(call, r.output, padded(r.logsumexp, call.outputs[1].toTensor()),
       scalar_like(call.outputs[2], call.random.seed),
       scalar_like(call.outputs[3], call.random.offset));
}

// (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
// mask[4], is_causal,
//  scale)
void efficient_backward(HostCall& call) {
  auto& s = call.stack;
  Attention a = attention(call, as_it_is, 1, 12, 9);
  a.bias = tensor_at(call, 4);
  a.random = saved(a.dropout, tensor_at(call, 7), tensor_at(call, 8));
  a.causal = s[11].toBool();
  const at::Tensor lse = tensor_at(call, 6).slice(-1, 0, a.query.size(2));
  const auto g = attention_backward(a, tensor_at(call, 0), tensor_at(call, 5), lse);
  const bool wants_bias =
      a.bias.defined() && call.outputs[3].isTensor() && call.outputs[3].toTensor().defined();
  give(call, g.query, g.key, g.value, wants_bias ? g.bias : at::Tensor());
}

// A state's part in a tensor of one element, as cuDNN's host code has made it.
// From torch 2.5 on (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal,
// return_debug_mask, scale), of the layer's operator (..., attn_bias, cum_seq_q, cum_seq_k, max_q,
// max_k, compute_log_sumexp, ...)
//   -> (output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed, philox_offset, debug)
template <std::size_t extra>
void cudnn_attention(HostCall& call) {
  auto& s = call.stack;
  refuse_with(s.size() != 9 + extra, call, "this release of torch");
  refuse_with(extra > 0 && tensor_at(call, 4).defined(), call, "sequences of different lengths");
  refuse_with(s[7 + extra].toBool(), call, "return_debug_mask");
  Attention a = attention(call, as_it_is, 0, 8 + extra, 5 + extra);
  a.bias = tensor_at(call, 3);
  a.random = call.random;
  a.causal = s[6 + extra].toBool();
  const AttentionResult r = attention_forward(a);
  const at::Tensor& made = call.outputs[1].toTensor();
  const at::Tensor none;
  give(call, r.output,
       made.defined() && made.numel() > 0 ? r.logsumexp.reshape(made.sizes()) : none, none, none,
       a.query.size(2), a.key.size(2), scalar_like(call.outputs[6], call.random.seed),
       scalar_like(call.outputs[7], call.random.offset), none);
}

// (grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q,
// cum_seq_k, max_q, max_k, dropout_p, is_causal, scale)
void cudnn_attention_backward(HostCall& call) {
  auto& s = call.stack;
  refuse_with(s.size() != 16, call, "this release of torch");
  refuse_with(tensor_at(call, 9).defined(), call, "sequences of different lengths");
  Attention a = attention(call, as_it_is, 1, 15, 13);
  a.bias = tensor_at(call, 8);
  a.random = saved(a.dropout, tensor_at(call, 6), tensor_at(call, 7));
  a.causal = s[14].toBool();
  const auto g = attention_backward(
      a, tensor_at(call, 0), tensor_at(call, 4),
      tensor_at(call, 5).reshape({a.query.size(0), a.query.size(1), a.query.size(2)}));
  give(call, g.query, g.key, g.value);
}

bool causal(const c10::IValue& mask_type) {
  return mask_type.toInt() != 0;
}  // 1 top left, 2 bottom right
std::int64_t diagonal(const c10::IValue& mask_type, const Attention& a) {
  return mask_type.toInt() == 2 ? to_the_end(a) : 0;
}

// (query, key, value [B, S, H, D], bias, cu_seqlens_q, cu_seqlens_k, max_q, max_k, dropout_p,
// custom_mask_type,
//  compute_log_sumexp, scale, seqlen_k, window_size) -> (output, logsumexp, seed, offset, max_q,
//  max_k)
void efficient_layer(HostCall& call) {
  auto& s = call.stack;
  const bool packed = tensor_at(call, 4).defined();
  refuse_with(tensor_at(call, 12).defined(), call, "seqlen_k");
  refuse_with(packed && tensor_at(call, 3).defined(), call, "a bias for sequences end to end");
  refuse_with(!s[13].isNone() && s[13].toInt() > 0, call, "window_size");
  Attention a = attention(call, swapped, 0, 11, 8);
  a.bias = tensor_at(call, 3);
  a.random = call.random;
  a.causal = causal(s[9]);
  a.diagonal = diagonal(s[9], a);
  const at::Tensor seed = scalar_like(call.outputs[2], call.random.seed),
                   offset = scalar_like(call.outputs[3], call.random.offset);
  if (packed) {
    const AttentionResult r =
        attention_forward(Packed{a, tensor_at(call, 4), tensor_at(call, 5), s[9].toInt() == 2},
                          call.outputs[1].toTensor().sizes());
    return give(call, swapped(r.output), r.logsumexp, seed, offset, call.outputs[4],
                call.outputs[5]);
  }
  const AttentionResult r = attention_forward(a);
  give(call, swapped(r.output), padded(r.logsumexp, call.outputs[1].toTensor()), seed, offset,
       a.query.size(2), a.key.size(2));
}

// (grad_out, query, key, value, bias, out, cu_seqlens_q, cu_seqlens_k, max_q, max_k, logsumexp,
// dropout_p, seed, offset,
//  custom_mask_type, bias_requires_grad, scale, num_splits_key, window_size, shared_storage_dqdkdv)
void efficient_layer_backward(HostCall& call) {
  auto& s = call.stack;
  const bool packed = tensor_at(call, 6).defined();
  refuse_with(packed && tensor_at(call, 4).defined(), call, "a bias for sequences end to end");
  refuse_with(!s[18].isNone() && s[18].toInt() > 0, call, "window_size");
  Attention a = attention(call, swapped, 1, 16, 11);
  a.bias = tensor_at(call, 4);
  a.random = saved(a.dropout, tensor_at(call, 12), tensor_at(call, 13));
  a.causal = causal(s[14]);
  a.diagonal = diagonal(s[14], a);
  if (packed) {
    const auto g = attention_backward(
        Packed{a, tensor_at(call, 6), tensor_at(call, 7), s[14].toInt() == 2},
        swapped(tensor_at(call, 0)), swapped(tensor_at(call, 5)), tensor_at(call, 10));
    return give(call, swapped(g.query), swapped(g.key), swapped(g.value), at::Tensor());
  }
  const at::Tensor lse = tensor_at(call, 10).slice(-1, 0, a.query.size(2));
  const auto g =
      attention_backward(a, swapped(tensor_at(call, 0)), swapped(tensor_at(call, 5)), lse);
  give(call, swapped(g.query), swapped(g.key), swapped(g.value),
       s[15].toBool() ? g.bias : at::Tensor());
}

}  // namespace

void add_attention(Compositions& table) {
  table["aten::_scaled_dot_product_flash_attention"] = flash;
  table["aten::_scaled_dot_product_flash_attention_backward"] = flash_backward<as_it_is>;
  table["aten::_flash_attention_forward"] = flash_layer;
  table["aten::_flash_attention_backward"] = flash_backward<swapped>;
  table["aten::_scaled_dot_product_efficient_attention"] = efficient;
  table["aten::_scaled_dot_product_efficient_attention_backward"] = efficient_backward;
  table["aten::_scaled_dot_product_cudnn_attention"] = cudnn_attention<0>;
  table["aten::_scaled_dot_product_cudnn_attention_backward"] = cudnn_attention_backward;
  table["aten::_cudnn_attention_forward"] = cudnn_attention<4>;
  table["aten::_cudnn_attention_backward"] = cudnn_attention_backward;
  table["aten::_efficient_attention_forward"] = efficient_layer;
  table["aten::_efficient_attention_backward"] = efficient_layer_backward;
}

}  // namespace tidemark::operators
