// Decompositions whose CPU kernels know other algorithms by name than CUDA's.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// _linalg_svd(A, full_matrices, compute_uv, driver): the CPU has one algorithm, without a name.
void svd(HostCall& call) {
  call.stack[3] = c10::IValue();
  run_cpu_kernel(call);
}

// linalg_lstsq.out(self, b, rcond, driver, ...): CUDA has this algorithm alone; the CPU's default
// is another, which writes a rank.
void lstsq(HostCall& call) {
  call.stack[3] = std::string("gels");
  run_cpu_kernel(call);
}

/// Replaces matrices by their factors without exchanging rows: L below the diagonal, and U.
void factor(const at::Tensor& matrices) {
  const std::int64_t rows = matrices.size(-2), columns = matrices.size(-1);
  for (std::int64_t k = 0; k < std::min(rows, columns); ++k) {
    const at::Tensor below = matrices.narrow(-2, k + 1, rows - k - 1);
    const at::Tensor column = below.narrow(-1, k, 1);
    column.div_(matrices.narrow(-2, k, 1).narrow(-1, k, 1));
    const at::Tensor right = matrices.narrow(-1, k + 1, columns - k - 1);
    below.narrow(-1, k + 1, columns - k - 1).sub_(column.mul(right.narrow(-2, k, 1)));
  }
}

// linalg_lu_factor_ex(A, pivot, check_errors) -> (LU, pivots, info): the CPU always pivots.
void lu_factor(HostCall& call) {
  if (call.stack[1].toBool()) return run_cpu_kernel(call);
  const at::Tensor lu = tensor_at(call, 0).clone();
  factor(lu);
  const std::int64_t least = std::min(lu.size(-2), lu.size(-1));
  const auto batch = lu.sizes().slice(0, static_cast<std::size_t>(lu.dim() - 2));
  std::vector<std::int64_t> sizes(batch.begin(), batch.end());
  const at::Tensor good =
      lu.diagonal(0, -2, -1).ne(0).cumprod(-1).sum(-1);  // before the first zero
  const at::Tensor info = at::where(good.eq(least), 0, good + 1).to(at::kInt);
  sizes.push_back(least);
  give(call, lu, at::arange(1, least + 1, at::kInt).expand(sizes), info);
}

// linalg_lu(A, pivot) -> (P, L, U)
void lu(HostCall& call) {
  if (call.stack[1].toBool()) return run_cpu_kernel(call);
  const at::Tensor both = tensor_at(call, 0).clone();
  factor(both);
  const std::int64_t least = std::min(both.size(-2), both.size(-1));
  const at::Tensor lower = both.narrow(-1, 0, least).tril(-1);
  lower.diagonal(0, -2, -1).fill_(1);
  give(call, at::Tensor(), lower, both.narrow(-2, 0, least).triu());
}

}  // namespace

void add_linalg(Compositions& table) {
  table["aten::_linalg_svd"] = table["aten::_linalg_svd.U"] = svd;
  table["aten::linalg_lstsq.out"] = lstsq;
  table["aten::linalg_lu_factor_ex"] = lu_factor;
  table["aten::linalg_lu"] = lu;
}

}  // namespace tidemark::operators
