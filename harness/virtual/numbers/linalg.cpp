// Decompositions whose CPU kernels know other algorithms by name than CUDA's.
#include "harness/virtual/numbers/compositions.h"

namespace tidemark::numbers {
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

}  // namespace

void add_linalg(Compositions& table) {
  table["aten::_linalg_svd"] = table["aten::_linalg_svd.U"] = svd;
  table["aten::linalg_lstsq.out"] = lstsq;
}

}  // namespace tidemark::numbers
