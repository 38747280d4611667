#include "harness/virtual/operators/sparse_product.h"

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/values.h"

namespace tidemark::operators {
namespace {

bool is_rows(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
         value.toTensor().layout() == c10::kSparseCsr && value.toTensor().dim() == 2;
}

/// Ones in the places of the entries, as a coalesced COO matrix on the host.
at::Tensor pattern_of(const at::Tensor& sparse) {
  const std::vector<at::Tensor> parts = parts_of(sparse);
  at::Tensor indices = host_alias(parts[0]).to(at::kLong);
  if (sparse.layout() == c10::kSparseCsr) {
    const at::Tensor rows = at::repeat_interleave(indices.diff());
    indices = at::stack({rows, host_alias(parts[1]).to(at::kLong)});
  }
  const at::Tensor ones = at::ones({indices.size(1)}, at::kDouble);
  const at::Tensor pattern = at::_sparse_coo_tensor_unsafe(indices, ones, sparse.sizes());
  return pattern.is_coalesced() ? pattern : at::_coalesce(pattern);
}

}  // namespace

std::optional<Factors> factors_of(const std::string& name,
                                  const std::vector<c10::IValue>& arguments) {
  if (name == "aten::_sparse_sparse_matmul")
    return Factors{arguments[0].toTensor(), arguments[1].toTensor()};
  // addmm(self, mat1, mat2, beta, alpha), addmm.out(..., out)
  const bool has_out = name == "aten::addmm.out";
  if ((name != "aten::addmm" && !has_out) || !is_rows(arguments[1]) || !is_rows(arguments[2]) ||
      !is_rows(arguments[has_out ? 5 : 0]))
    return std::nullopt;
  const bool adds = !arguments[3].toScalar().equal(0) &&
                    (!is_rows(arguments[0]) || arguments[0].toTensor()._nnz() > 0);
  if (adds) return std::nullopt;
  return Factors{arguments[1].toTensor(), arguments[2].toTensor()};
}

bool indices_are_known(const Factors& factors) {
  for (const at::Tensor& sparse : {factors.first, factors.second}) {
    std::vector<at::Tensor> parts = parts_of(sparse);
    parts.pop_back();
    for (const at::Tensor& indices : parts)
      if (!is_known(indices)) return false;
  }
  return true;
}

SparseProduct product_of(const Factors& factors) {
  const at::Tensor a = pattern_of(factors.first), b = pattern_of(factors.second);
  const at::Tensor in_row = at::bincount(b._indices()[0], {}, b.size(0));
  return {at::_sparse_sparse_matmul(a, b),
          in_row.index_select(0, a._indices()[1]).sum().item<std::int64_t>()};
}

std::vector<std::pair<at::Tensor, at::Tensor>> indices_of(const at::Tensor& result,
                                                          const SparseProduct& product) {
  const std::vector<at::Tensor> parts = parts_of(result);
  const at::Tensor indices = product.pattern._indices();
  if (result.layout() == c10::kSparse) return {{parts[0], indices}};
  const at::Tensor in_row = at::bincount(indices[0], {}, product.pattern.size(0));
  return {{parts[0], at::cat({at::zeros({1}, at::kLong), in_row.cumsum(0)})},
          {parts[1], indices[1]}};
}

}  // namespace tidemark::operators
