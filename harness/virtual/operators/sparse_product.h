// Products of two sparse matrices. How many entries they have depends on the indices alone.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/virtual/operators/device_calls.h"

namespace tidemark::operators {

/// The two matrices of a call that multiplies sparse matrices, with a sparse result; empty for any
/// other call.
using Factors = std::pair<at::Tensor, at::Tensor>;
std::optional<Factors> factors_of(const std::string& name,
                                  const std::vector<c10::IValue>& arguments);
bool indices_are_known(const Factors& factors);

struct SparseProduct {
  at::Tensor pattern;         // on the host: COO, in order
  std::int64_t products = 0;  // of an entry of one and an entry of the other
};
/// From the indices, on the host.
SparseProduct product_of(const Factors& factors);
/// The parts of a result that hold its indices, and these indices.
std::vector<std::pair<at::Tensor, at::Tensor>> indices_of(const at::Tensor& result,
                                                          const SparseProduct& product);

/// While it lives, cuSPARSE on this thread knows the size of the product.
struct AnswerProduct {
  explicit AnswerProduct(const SparseProduct& product) {
    device.sparse_product(product.pattern._nnz(), product.products);
  }
  ~AnswerProduct() { device.sparse_product(-1, -1); }
  AnswerProduct(const AnswerProduct&) = delete;
};

}  // namespace tidemark::operators
