// The sizes of a trial by their names, whole and of one rank.
#pragma once

#include <cstdint>

#include "harness/scenario.h"
#include "reference/attention_plan.h"

namespace tidemark::tp_buffer_reuse {

struct Dimensions {
  explicit Dimensions(const Trial& trial)
      : ranks(trial.ranks),
        layers(trial["layers"]),
        hidden(trial["hidden"]),
        ffn(trial["ffn"]),
        heads(trial["heads"]),
        kv_heads(trial["kv_heads"]),
        sequence(trial["sequence"]),
        batch(trial["microbatch"]),
        in_flight(trial["in_flight"]),
        head(hidden / heads),
        bf16(trial["precision"] == 1),
        element(bf16 ? 2 : 4) {}

  std::int64_t ranks, layers, hidden, ffn, heads, kv_heads, sequence, batch, in_flight;
  std::int64_t head;  // elements of an attention head
  bool bf16;
  std::int64_t element;  // bytes

  std::int64_t rows() const { return sequence * batch; }  // tokens of a microbatch
  std::int64_t shard_rows() const { return rows() / ranks; }
  std::int64_t own_heads() const { return heads / ranks; }
  std::int64_t own_kv_heads() const { return kv_heads / ranks; }
  std::int64_t own_ffn() const { return ffn / ranks; }
  reference::AttentionShape attention() const {
    return {batch, sequence, own_heads(), own_kv_heads(), head, bf16};
  }
  std::int64_t qkv() const { return (own_heads() + 2 * own_kv_heads()) * head; }
};

}  // namespace tidemark::tp_buffer_reuse
