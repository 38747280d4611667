// Products of groups of matrices, as mixtures of experts use them: in float, and rounded once to
// the type of the result.
#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/refusal.h"

namespace tidemark::operators {
namespace {

/// Groups of the operands a [M, K] or [G, M, K] and b [K, N] or [G, K, N]. An operand without G has
/// its groups one after the other along `cut`, up to the places in `ends` (int32 [G]).
struct Groups {
  at::Tensor a, b, ends;

  std::int64_t count() const {
    return ends.defined() ? ends.size(0) : (a.dim() == 3 ? a : b).size(0);
  }
  std::pair<std::int64_t, std::int64_t> range(std::int64_t i) const {
    const at::Tensor all = ends.to(at::kLong);
    const std::int64_t begin = i == 0 ? 0 : all[i - 1].item<std::int64_t>();
    return {begin, std::max(begin, all[i].item<std::int64_t>()) - begin};
  }
  at::Tensor part(const at::Tensor& of, std::int64_t i, std::int64_t cut) const {
    if (!of.defined()) return of;
    if (cut < 0) return of[i];
    const auto [begin, length] = range(i);
    return of.narrow(cut, begin, length);
  }
  bool inner() const { return a.dim() == 2 && b.dim() == 2; }  // the groups divide K
  // Along which dimension the groups of an operand lie; -1: the first one counts them.
  std::int64_t cut_a() const { return a.dim() == 3 ? -1 : inner() ? 1 : 0; }
  std::int64_t cut_b() const { return b.dim() == 3 ? -1 : inner() ? 0 : 1; }
  std::int64_t cut_result() const { return a.dim() == b.dim() ? -1 : a.dim() == 2 ? 0 : 1; }
};

/// Scales in float of the rows of a, or of the columns of b: one for each of them in each group.
at::Tensor row_scales(const HostCall& call, const char* name, const Groups& groups, bool of_a) {
  const at::Tensor scale = tensor_named(call, name);
  const at::Tensor& operand = of_a ? groups.a : groups.b;
  const std::int64_t rows = operand.size(of_a ? -2 : -1);
  const bool grouped = operand.dim() == 3 || groups.inner();
  if (!scale.defined() || scale.scalar_type() != at::kFloat ||
      scale.numel() != rows * (grouped ? groups.count() : 1))
    refuse<c10::NotImplementedError>(
        call.op.schema().name(), " has no numbers with these scales: one for each row, in float");
  return grouped ? scale.reshape({groups.count(), rows}) : scale.reshape({rows});
}

/// The result has what was in its memory before where no group writes, as on CUDA.
void product(HostCall& call, const Groups& groups, const at::Tensor& scale_a,
             const at::Tensor& scale_b) {
  const at::Tensor result = host_alias(call.outputs[0].toTensor());
  const auto scales = [&](const at::Tensor& scale, std::int64_t i, std::int64_t cut) {
    return groups.part(scale, i, cut >= 0 && !groups.inner() ? 0 : -1);
  };
  for (std::int64_t i = 0; i < groups.count(); ++i) {
    at::Tensor one = at::mm(groups.part(groups.a, i, groups.cut_a()).to(at::kFloat),
                            groups.part(groups.b, i, groups.cut_b()).to(at::kFloat));
    if (scale_a.defined()) one.mul_(scales(scale_a, i, groups.cut_a()).unsqueeze(1));
    if (scale_b.defined()) one.mul_(scales(scale_b, i, groups.cut_b()).unsqueeze(0));
    groups.part(result, i, groups.cut_result()).copy_(one);
  }
  give(call, result);
}

Groups groups_of(const HostCall& call) {
  if (tensor_named(call, "bias").defined())
    refuse<c10::NotImplementedError>(call.op.schema().name(), " has no numbers with a bias");
  return {tensor_at(call, 0), tensor_at(call, 1), tensor_named(call, "offs")};
}

// _grouped_mm(self, mat2, offs, bias, out_dtype)
void grouped_mm(HostCall& call) { product(call, groups_of(call), {}, {}); }

// _scaled_grouped_mm(self, mat2, scale_a, scale_b, offs, bias, scale_result, out_dtype, ...)
void scaled_grouped_mm(HostCall& call) {
  if (tensor_named(call, "scale_result").defined())
    refuse<c10::NotImplementedError>(call.op.schema().name(),
                                     " has no numbers with a scale of the result");
  const Groups groups = groups_of(call);
  product(call, groups, row_scales(call, "scale_a", groups, true),
          row_scales(call, "scale_b", groups, false));
}

}  // namespace

void add_grouped_matmul(Compositions& table) {
  table["aten::_grouped_mm"] = grouped_mm;
  table["aten::_scaled_grouped_mm"] = scaled_grouped_mm;
  table["aten::_scaled_grouped_mm_v2"] = scaled_grouped_mm;
}

}  // namespace tidemark::operators
