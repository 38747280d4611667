#include "cases/numbers.h"

#include <ATen/ATen.h>

#include <cmath>

#include "reference/deterministic.h"

namespace tidemark {

void fill(std::uint64_t seed, const std::string& name, std::int64_t offset, at::Tensor tensor) {
  if (tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  auto host = at::empty({tensor.numel()}, at::TensorOptions().dtype(at::kDouble));
  reference::fill(seed, name, offset,
                  {host.mutable_data_ptr<double>(), static_cast<std::size_t>(tensor.numel())});
  tensor.copy_(host.to(tensor.scalar_type()).pin_memory().view(tensor.sizes()),
               /*non_blocking=*/true);
}

std::vector<Shard> whole_tensors(const std::vector<reference::Tensor>& tensors) {
  std::vector<Shard> all;
  for (const auto& t : tensors) all.push_back({t.name, 0, at::tensor(t.values, at::kDouble)});
  return all;
}

double unit_roundoff(bool single) { return std::ldexp(1, single ? -24 : -9); }

}  // namespace tidemark
