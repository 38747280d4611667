#include "cases/tp_buffer_reuse/model.h"

#include <ATen/ATen.h>

#include "harness/measure/recorder.h"
#include "harness/parallel/attention.h"
#include "harness/parallel/swiglu.h"

namespace tidemark::tp_buffer_reuse {

Dimensions dimensions(const Trial& trial) {
  return {.ranks = trial.ranks,
          .layers = trial["layers"],
          .hidden = trial["hidden"],
          .ffn = trial["ffn"],
          .heads = trial["heads"],
          .kv_heads = trial["kv_heads"],
          .sequence = trial["sequence"],
          .batch = trial["microbatch"],
          .in_flight = trial["in_flight"],
          .bf16 = trial["precision"] == 1};
}

Stage::Stage(const Dimensions& sizes, TensorParallel& group, bool fused_glu)
    : dimensions_(sizes), group_(group), fused_glu_(fused_glu) {
  const auto& d = dimensions_;
  const auto rank = group.rank();
  // This rank's rows of each named parameter, one below the other.
  const auto split = [&](std::int64_t columns,
                         std::vector<std::pair<std::string, std::int64_t>> parts) {
    std::vector<Piece> pieces;
    std::int64_t rows = 0;
    for (const auto& [name, own] : parts) {
      pieces.push_back({name, rows, own, rank * own * columns});
      rows += own;
    }
    return add(rows, columns, std::move(pieces));
  };
  for (std::int64_t i = 0; i < d.layers; ++i) {
    const auto name = [&](const char* what) { return "layers." + std::to_string(i) + "." + what; };
    const auto norm = [&](const char* what) {
      auto weight = add(1, d.hidden, {{name(what), 0, 1, 0}});
      weights_.back().replicated = true;
      return weight;
    };
    Block b;
    b.first_norm = norm("attention_norm");
    b.qkv = split(d.hidden, {{name("fc_query"), d.own_heads() * d.head()},
                             {name("fc_key"), d.own_kv_heads() * d.head()},
                             {name("fc_value"), d.own_kv_heads() * d.head()}});
    b.out = split(d.hidden, {{name("fc_out"), d.own_heads() * d.head()}});
    b.second_norm = norm("mlp_norm");
    b.gate_up = split(d.hidden, {{name("fc_gate"), d.own_ffn()}, {name("fc_up"), d.own_ffn()}});
    b.down = split(d.hidden, {{name("fc_down"), d.own_ffn()}});
    blocks_.push_back(b);
  }
}

at::Tensor Stage::add(std::int64_t rows, std::int64_t columns, std::vector<Piece> pieces) {
  const CategoryScope category("parameters");
  auto value = at::empty(
      {rows, columns},
      at::TensorOptions().dtype(dimensions_.bf16 ? at::kBFloat16 : at::kFloat).device(at::kCUDA));
  value.set_requires_grad(true);
  weights_.push_back({value, std::move(pieces)});
  return value;
}

at::Tensor Stage::forward(const at::Tensor& x) {
  auto y = x;
  for (const auto& b : blocks_) y = block(b, y);
  return y;
}

at::Tensor Stage::block(const Block& b, const at::Tensor& x) {
  const auto& d = dimensions_;
  const auto norm = [&](const at::Tensor& in, const at::Tensor& weight) {
    return at::rms_norm(in, {d.hidden}, weight.view({d.hidden}), 1e-5);
  };
  const AttentionShape shape{.sequence = d.sequence,
                             .batch = d.batch,
                             .heads = d.own_heads(),
                             .kv_heads = d.own_kv_heads(),
                             .head = d.head()};
  const auto merged = group_.column_linear(norm(x, b.first_norm), b.qkv);
  const auto attended = causal_attention(merged, shape);
  const auto middle = x + group_.row_linear(attended, b.out);
  const auto wide = group_.column_linear(norm(middle, b.second_norm), b.gate_up);
  return middle + group_.row_linear(fused_glu_ ? fused_swiglu(wide) : swiglu(wide), b.down);
}

}  // namespace tidemark::tp_buffer_reuse
