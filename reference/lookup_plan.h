// Allocations of PyTorch's gradient of an embedding, besides its result. More than 3,072 tokens are
// sorted, so that equal ones lie side by side, and their gradients summed ten rows at a time
// (ATen/native/cuda/Embedding.cu and EmbeddingBackwardKernel.cu).
#pragma once

#include <cstdint>

#include "reference/memory/replay.h"

namespace tidemark::reference {

struct LookupShape {
  std::int64_t tokens, vocabulary, hidden;
  bool bf16;  // else single precision
};

/// Bytes. The temporaries of a prefix sum of `rows` are left out: they are gone before `sums`,
/// which is always larger.
struct LookupPlan {
  LookupPlan(const LookupShape& shape, const DeviceFacts& device);

  bool sorts;
  std::int64_t indices;       // one for each token
  std::int64_t sort, unique;  // temporaries of CUB's radix sort, and of its unique keys
  std::int64_t rows, parts;   // one index for each row that is looked up; for each part of it
  bool atomic;                // added without sums of parts, and in half precision
  std::int64_t sums;          // by part; where atomic, of the whole table in single precision
};

}  // namespace tidemark::reference
