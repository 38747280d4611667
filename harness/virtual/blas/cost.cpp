#include "harness/virtual/blas/blas.h"
#include "harness/virtual/device/memory.h"

namespace tidemark::blas {

using device::Number;

Element element_of(cudaDataType type) {
  switch (static_cast<int>(type)) {
    case CUDA_R_64F:
      return {Number::f64, 8, 2};
    case CUDA_C_64F:
      return {Number::f64, 16, 8};
    case CUDA_R_32F:
      return {Number::f32, 4, 2};
    case CUDA_C_32F:
      return {Number::f32, 8, 8};
    case CUDA_R_16F:
      return {Number::f16, 2, 2};
    case CUDA_C_16F:
      return {Number::f16, 4, 8};
    case CUDA_R_16BF:
      return {Number::bf16, 2, 2};
    case CUDA_C_16BF:
      return {Number::bf16, 4, 8};
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return {Number::f8, 1, 2};
    case CUDA_R_4F_E2M1:
      return {Number::f8, 0.5, 2};
    case CUDA_R_8I:
    case CUDA_R_8U:
      return {Number::i8, 1, 2};
    default:
      return {Number::other, 4, 2};
  }
}

device::Number rate_of(cudaDataType type, int math_mode, int compute) {
  const Number own = element_of(type).number;
  if (own != Number::f32) return own;
  if (compute == compute_f32_fast_f16) return Number::f16;
  if (compute == compute_f32_fast_bf16) return Number::bf16;
  return compute == compute_f32_fast_tf32 || (math_mode & 0xf) == 3 ? Number::tf32 : Number::f32;
}

device::Cost cost_of(const Product& p, int math_mode, int compute) {
  const auto batch = static_cast<double>(p.batch), m = static_cast<double>(p.m);
  const auto n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const Element a = element_of(p.a);
  return {.flops = batch * a.multiply_add * m * n * k,
          .number = rate_of(p.a, math_mode, compute),
          .bytes = batch * (a.bytes * m * k + element_of(p.b).bytes * k * n +
                            element_of(p.c).bytes * m * n * (p.accumulates ? 2 : 1))};
}

Status work(const Handle* handle, const char* name, cudaDataType type, double multiply_adds,
            double elements) {
  if (!made(handle)) return not_initialized;
  if (multiply_adds < 0 || elements < 0) return invalid_value;
  if (elements == 0) return success;
  if (refused(name)) return not_supported;
  const Element element = element_of(type);
  device::enqueue(handle->stream, name,
                  {.flops = multiply_adds * element.multiply_add,
                   .number = rate_of(type, handle->math_mode, 0),
                   .bytes = elements * element.bytes});
  return success;
}

Status product(const Handle* handle, const char* name, const Product& p, int compute) {
  if (!made(handle)) return not_initialized;
  const auto rows = [](std::int64_t n) { return n > 1 ? n : 1; };
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0 || p.ldc < rows(p.m) ||
      p.lda < rows(p.transpose_a == as_is ? p.m : p.k) ||
      p.ldb < rows(p.transpose_b == as_is ? p.k : p.n))
    return invalid_value;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return success;
  if (refused(name)) return not_supported;
  if (p.a == CUDA_R_16BF) device::library_used(device::Placement::Library::bf16_product);
  device::enqueue(handle->stream, name, cost_of(p, handle->math_mode, compute));
  return success;
}

bool is_zero(const void* scalar, bool wide) {
  if (!scalar) return false;
  return wide ? *static_cast<const double*>(scalar) == 0 : *static_cast<const float*>(scalar) == 0;
}

bool accumulates(const Handle* handle, const void* beta, bool wide) {
  return !made(handle) || handle->pointer_mode != 0 || !is_zero(beta, wide);
}

}  // namespace tidemark::blas
