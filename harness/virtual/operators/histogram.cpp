// Histograms of integers, which the CPU's kernel does not have. A router of experts counts its
// tokens so.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// histc(self, bins, min, max). As CUDA's kernel: bins are found by integer division, the last one
// has its upper end too, and what lies outside is not counted.
void histc(HostCall& call) {
  const at::Tensor self = tensor_at(call, 0);
  if (!at::isIntegralType(self.scalar_type(), false)) return run_cpu_kernel(call);
  const at::Tensor values = self.flatten().to(at::kLong);
  const std::int64_t bins = call.stack[1].toInt();
  auto low = call.stack[2].toScalar().to<std::int64_t>();
  auto high = call.stack[3].toScalar().to<std::int64_t>();
  if (low == high && values.numel() > 0) {
    low = values.min().item<std::int64_t>();
    high = values.max().item<std::int64_t>();
  }
  if (low == high) --low, ++high;
  const at::Tensor inside = values.masked_select((values >= low).logical_and(values <= high));
  const at::Tensor bin = (inside - low).mul(bins).floor_divide(high - low).clamp_max(bins - 1);
  give(call, at::bincount(bin, {}, bins).to(self.scalar_type()));
}

}  // namespace

void add_histogram(Compositions& table) { table["aten::histc"] = histc; }

}  // namespace tidemark::operators
