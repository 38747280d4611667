#include "cases/tp_buffer_reuse/amounts.h"

namespace tidemark::tp_buffer_reuse {
std::vector<Symbol> symbols() {
  return {
      {"rest",
       "what stays between steps under every policy: parameters, Adam's two moments, a cuBLAS "
       "workspace for each of two threads, and the loss"},
      {"b", "a persistent buffer for a gathered activation: one tensor"},
      {"q", "microbatches in flight"},
      {"L", "layers of this pipeline stage"},
      {"i", "layers whose backward is not over, the one at this moment included"},
      {"F", "a gathered activation: one tensor"},
      {"X", "an activation divided among the ranks, by rows or by heads (F/t): one tensor"},
      {"s", "statistics of one norm: one tensor"},
      {"A",
       "what attention keeps: queries, keys and values, repeated keys and values where the kernel "
       "needs them, output, log-sum-exp, random state"},
      {"M", "gradient of queries, keys and values: one tensor"},
      {"g", "gate and up of the GLU, or their gradient: one tensor"},
      {"f", "a GLU activation (its output, silu(gate)) or a gradient of one: one tensor"},
      {"P", "gradients of one layer's parameters: six tensors"},
      {"W_qkv", "gradient of the weight of queries, keys and values: one tensor"},
      {"W_o", "gradient of the weight after attention: one tensor"},
      {"W_gu", "gradient of the weight of gate and up: one tensor"},
      {"W_d", "gradient of the weight after the GLU: one tensor"},
      {"n", "gradient of one norm's weight: one tensor"},
      {"k", "gradient of keys, or of values: one tensor"},
      {"D", "row sums of gradient times output, in attention's backward: one tensor"},
      {"B", "workspace of attention's backward, where the queries' gradient is summed: one tensor"},
      {"S", "outputs and log-sum-exps of attention's parts, before they are merged: two tensors"}};
}

Vocabulary amounts(const Dimensions& d, const reference::DeviceFacts& device) {
  using Tensors = std::vector<Bytes>;
  const reference::AttentionPlan attention(d.attention(), device.processors);
  const Bytes whole = d.rows() * d.hidden * d.element(), shard = whole / d.ranks;
  const Bytes merged = d.rows() * d.qkv() * d.element();
  const Bytes half = d.rows() * d.own_ffn() * d.element();
  const Bytes norm = d.hidden * d.element(), qkv = d.qkv() * norm,
              out = d.own_heads() * d.head() * norm, down = d.own_ffn() * norm;
  const Tensors weights{norm, qkv, out, norm, 2 * down, down};

  Vocabulary v;
  v.tensors("rest", {4, device.workspace_bytes, device.workspace_bytes});
  for (std::int64_t i = 0; i < 3 * d.layers; ++i) v.tensors("rest", weights);
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

}  // namespace tidemark::tp_buffer_reuse
