// Allocations of PyTorch's kernels on paper: fused attention, the gradient of an embedding, and a
// sum over rows.
#pragma once

#include <cstdint>

#include "reference/memory/replay.h"

namespace tidemark::reference {

/// Shape of the attention of one rank.
struct AttentionShape {
  std::int64_t batch, sequence, heads, kv_heads;
  std::int64_t head;  // elements of one
  bool bf16;          // else single precision
};

/// Bytes, of one layer: flash (ATen/native/transformers/cuda/flash_attn/flash_api.cpp) in half
/// precision, memory-efficient (mem_eff_attention/kernel_backward.h, kernels/cutlassB.h) in single.
struct AttentionPlan {
  AttentionPlan(const AttentionShape& shape, const DeviceFacts& device);

  AttentionShape shape;
  Amount queries, keys;  // of queries (and the output), and of keys (or values)
  bool repeats;          // keys and values are repeated for every query head,
  bool copies;           // in memory (a single head is repeated by a stride of 0)
  Amount statistics;     // log-sum-exp, kept for backward
  Amount split_statistics = 0, split_output = 0;  // temporaries of a forward in several parts
  Amount delta;                                   // backward: row sums of gradient times output
  Amount workspace;  // backward: the accumulator of the queries' gradient
};

struct LookupShape {
  std::int64_t tokens, vocabulary, hidden;
  bool bf16;  // else single precision
};

/// Bytes, of an embedding's gradient besides its result. More than 3,072 tokens are sorted, so that
/// equal ones lie side by side, and their gradients summed ten rows at a time
/// (ATen/native/cuda/Embedding.cu and EmbeddingBackwardKernel.cu). The temporaries of a prefix sum
/// of `rows` are left out: they are gone before `sums`, which is always larger.
struct LookupPlan {
  LookupPlan(const LookupShape& shape, const DeviceFacts& device);

  bool sorts;
  Amount indices;       // one for each token
  Amount sort, unique;  // temporaries of CUB's radix sort, and of its unique keys
  Amount rows, parts;   // one index for each row that is looked up; for each part of it
  bool atomic;          // added without sums of parts, and in half precision
  Amount sums;          // by part; where atomic, of the whole table in single precision
};

struct RowsShape {
  std::int64_t rows, columns, element;  // bytes of an element: 2 or 4
};

/// Bytes, of a sum over the rows of a matrix besides its result: where many rows are summed for few
/// columns, several blocks share a column, through a buffer with a lock for every row of blocks
/// (setReduceConfig of ATen/native/cuda/Reduce.cuh). 0: one block has a column to itself.
struct SumOfRowsPlan {
  SumOfRowsPlan(const RowsShape& shape, const DeviceFacts& device);

  Amount buffer = 0, locks = 0;
};

}  // namespace tidemark::reference
