// Products of matrices of 8-bit and 4-bit floats with scales, which the CPU lacks or knows in part:
// in float, and rounded once to the type of the result.
#include <string_view>

#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/refusal.h"

namespace tidemark::operators {
namespace {

bool is_type(const at::Tensor& tensor, const char* name) {
  return tensor.defined() && std::string_view(c10::toString(tensor.scalar_type())) == name;
}
bool is_4_bit(const at::Tensor& tensor) { return is_type(tensor, "Float4_e2m1fn_x2"); }

/// Rows of the operand, with the product's inner dimension along them, in float. A byte has two
/// 4-bit floats, the first in its low bits (OCP, Microscaling Formats, section 5.3.3).
at::Tensor in_float(const at::Tensor& rows) {
  if (!is_4_bit(rows)) return rows.to(at::kFloat);
  const at::Tensor bytes = rows.contiguous().view(at::kByte).to(at::kLong);
  const at::Tensor values = at::tensor({0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f});
  const at::Tensor all = at::cat({values, -values});
  return at::stack({at::index_select(all, 0, bytes.bitwise_and(15).flatten()),
                    at::index_select(all, 0, bytes.div(16, "floor").to(at::kLong).flatten())},
                   -1)
      .reshape({rows.size(0), -1});
}

/// Number of elements of a row with one scale: 32 with scales of 8 bits of exponent (MXFP8, MXFP4),
/// 16 of 4-bit floats with scales in e4m3 (NVFP4). 0: the scales are of another kind.
std::int64_t block_of(const at::Tensor& rows, const at::Tensor& scale) {
  if (is_type(scale, "Float8_e8m0fnu")) return 32;
  return is_4_bit(rows) && is_type(scale, "Float8_e4m3fn") ? 16 : 0;
}

/// Multiplied with the scales of its blocks. cuBLAS has these in tiles of 128 rows and 4 blocks:
/// 32 lines of 16, of which each has 4 blocks of the rows i, i + 32, i + 64 and i + 96 (cuBLAS,
/// "1D Block Scaling Factors Layout").
at::Tensor scaled_by_block(const at::Tensor& rows, const at::Tensor& scale, std::int64_t block,
                           const std::string& name) {
  const std::int64_t count = rows.size(0), blocks = (rows.size(1) + block - 1) / block;
  const std::int64_t down = (count + 127) / 128, across = (blocks + 3) / 4;
  if (scale.numel() != down * across * 512)
    refuse<c10::NotImplementedError>(name, " has no numbers with these scales: one for each ",
                                     block, " elements, in cuBLAS's tiles of 128 x 4");
  const at::Tensor of_blocks = scale.to(at::kFloat)
                                   .reshape({down, across, 32, 4, 4})
                                   .permute({0, 3, 2, 1, 4})
                                   .reshape({down * 128, across * 4})
                                   .narrow(0, 0, count);
  return rows * of_blocks.repeat_interleave(block, 1).narrow(1, 0, rows.size(1));
}

/// The scales in float of its blocks of 128 elements, for each row or for each 128 rows: [rows or
/// blocks of rows, blocks along a row], undefined where they are no such ones. Either dimension may
/// come first, and cuBLAS's layouts say which: the rows are contiguous where each has scales of its
/// own, the blocks along a row where 128 of them share scales, and are then filled up to a multiple
/// of 4 in newer releases.
at::Tensor scales_of_128(const at::Tensor& rows, const at::Tensor& scale) {
  if (!scale.defined() || scale.scalar_type() != at::kFloat || scale.dim() != 2) return {};
  const std::int64_t count = rows.size(0), across = (rows.size(1) + 127) / 128;
  const auto contiguous = [](const at::Tensor& t, std::int64_t dim) {
    return t.size(dim) == 1 || t.stride(dim) == 1;
  };
  for (const at::Tensor& s : {scale, scale.t()}) {
    if (s.size(0) == count && s.size(1) == across && contiguous(s, 0)) return s;
    if (s.size(0) == (count + 127) / 128 && contiguous(s, 1) &&
        (s.size(1) == across || s.size(1) == (across + 3) / 4 * 4))
      return s;
  }
  return {};
}

at::Tensor scaled_by_128(const at::Tensor& rows, const at::Tensor& scales) {
  const at::Tensor of_rows = scales.size(0) == rows.size(0)
                                 ? scales
                                 : scales.repeat_interleave(128, 0).narrow(0, 0, rows.size(0));
  return rows * of_rows.repeat_interleave(128, 1).narrow(1, 0, rows.size(1));
}

/// The operand's rows in float, multiplied with the scales of their blocks. True: `scale` has none,
/// and is still to be multiplied with the product.
std::pair<at::Tensor, bool> scaled_rows(const HostCall& call, const at::Tensor& rows,
                                        const char* scale_name) {
  const at::Tensor scale = tensor_named(call, scale_name), values = in_float(rows);
  if (const std::int64_t block = block_of(rows, scale); block > 0)
    return {scaled_by_block(values, scale, block, call.op.schema().name()), false};
  if (const at::Tensor scales = scales_of_128(rows, scale); scales.defined())
    return {scaled_by_128(values, scales), false};
  return {values, true};
}

/// The scale of an operand with so many rows (or columns), to be multiplied with the product.
at::Tensor scale_of(const HostCall& call, const char* name, std::int64_t count, bool of_rows) {
  const at::Tensor scale = tensor_named(call, name);
  const bool plain =
      scale.defined() && scale.scalar_type() == at::kFloat &&
      (scale.numel() == 1 || (scale.numel() == count && scale.size(of_rows ? 0 : -1) == count));
  if (!plain)
    refuse<c10::NotImplementedError>(
        call.op.schema().name(),
        " has no numbers with these scales: one for a tensor, or one for "
        "each row, or one for each block of 1 x 128 or 128 x 128, in "
        "float, or those of MXFP8 and NVFP4 for each block");
  if (scale.numel() == 1) return scale.reshape({1, 1});
  return of_rows ? scale.reshape({count, 1}) : scale.reshape({1, count});
}

/// Beyond the largest number of an 8-bit type lies that number, as cuBLAS saturates.
at::Tensor saturated(const at::Tensor& result, at::ScalarType type) {
  const double most = type == at::kFloat8_e4m3fn ? 448 : type == at::kFloat8_e5m2 ? 57344 : 0;
  return (most > 0 ? result.clamp(-most, most) : result).to(type);
}

// _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, ...[, out])
void scaled_mm(HostCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1).t();
  if (a.element_size() != 1 || b.element_size() != 1 || call.op.schema().returns().size() != 1)
    refuse<c10::NotImplementedError>(call.op.schema().name(), " has no numbers for these operands");
  const auto [left, scale_left] = scaled_rows(call, a, "scale_a");
  const auto [right, scale_right] = scaled_rows(call, b, "scale_b");
  at::Tensor result = at::mm(left, right.t());
  if (scale_left) result.mul_(scale_of(call, "scale_a", a.size(0), true));
  if (scale_right) result.mul_(scale_of(call, "scale_b", b.size(0), false));
  if (const at::Tensor bias = tensor_named(call, "bias"); bias.defined())
    result.add_(bias.to(at::kFloat));
  if (const at::Tensor scale = tensor_named(call, "scale_result"); scale.defined())
    result.mul_(scale.to(at::kFloat));
  result = saturated(result, call.outputs[0].toTensor().scalar_type());
  if (const at::Tensor out = tensor_named(call, "out"); out.defined()) {
    out.copy_(result);
    result = out;
  }
  give(call, result);
}

}  // namespace

void add_scaled_matmul(Compositions& table) {
  for (const char* name : {"aten::_scaled_mm", "aten::_scaled_mm.out", "aten::_scaled_mm_v2",
                           "aten::_scaled_mm_v2.out"})
    table[name] = scaled_mm;
}

}  // namespace tidemark::operators
