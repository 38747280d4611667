// Products with sparse matrices. They compute nothing: numbers are those of the operators' CPU
// kernels. Workspaces follow the calls recorded on an H100 (reports/measured/h100-80g).
#include <driver_types.h>

#include <new>

#include "harness/virtual/device/modelled.h"
#include "harness/virtual/stubs/handle.h"

namespace {

enum { index_32 = 2, csr_alg1 = 4 };
enum { real_float = 0, real_half = 2, real_bfloat = 14 };  // cudaDataType

// A matrix or a vector, dense or sparse.
struct Matrix {
  std::int64_t rows = 0, columns = 0, entries = 0;
  int index = 0, type = 0;
  std::int64_t batch = 1;
  bool by_rows = true;
};

int batch(Matrix* matrix, int count) {
  if (!made(matrix) || count < 1) return invalid_value;
  return matrix->batch = count, success;
}

std::int64_t parts(std::int64_t entries, std::int64_t each) { return (entries + each - 1) / each; }

// An index for each part of the entries: of 24 entries, or with CSR_ALG1 of 256 and one more. With
// one column the parts are larger; half precision has its sums in float besides. One index less a
// byte aligns it.
std::size_t product_workspace(const Matrix& a, std::int64_t columns, bool alg1) {
  const bool half = a.type == real_half || a.type == real_bfloat;
  const std::int64_t index = a.index == index_32 ? 4 : 8, n = a.entries;
  std::int64_t each = alg1 ? 256 : 24, more = alg1 ? 1 : 0;
  if (columns == 1) {
    if (half) return static_cast<std::size_t>(a.rows * 4 + 8 * parts(n, 896) + 142);
    each = index == 8 ? 3072 : a.type == real_float ? 4096 : 3584;
    more = 1;
  }
  return static_cast<std::size_t>(index * (parts(n, each) + more) + index - 1);
}

int give(std::size_t* size, const Matrix* a, std::int64_t columns, int operation, int algorithm) {
  if (!size || !made(a)) return invalid_value;
  const bool alg1 = algorithm == csr_alg1;
  const bool of_type = a->type <= real_half || a->type == real_bfloat;
  const bool recorded = of_type && operation == 0 && a->batch == 1 && a->by_rows &&
                        a->entries > 0 && alg1 == (a->index == index_32 && columns >= 1);
  const std::size_t bytes = product_workspace(*a, columns, alg1);
  *size = recorded && tidemark::device::is_hopper() ? bytes
                                                    : tidemark::device::modelled("cuSPARSE", bytes);
  return success;
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
std::int64_t bytes_of(int type) {  // of a cudaDataType
  switch (type) {
    case real_half:
    case real_bfloat:
      return 2;
    case real_float:
      return 4;
    case 5:  // complex double
      return 16;
    default:
      return 8;
  }
}

int refuse_product() {
  tidemark::device::say_once(
      "a product of two sparse matrices is refused, because the number of its entries depends on "
      "indices that this mode does not compute: mode math does");
  return not_supported;
}

}  // namespace

STUB(int, cusparseCreate)(Handle** handle) { return make(handle); }
STUB(int, cusparseDestroy)(Handle* handle) { return destroy(handle); }
STUB(int, cusparseSetStream)(Handle* handle, tidemark::device::StreamHandle stream) {
  return set_stream(handle, stream);
}
STUB(int, cusparseGetStream)(Handle* handle, tidemark::device::StreamHandle* stream) {
  return made(handle) && stream ? (*stream = handle->stream, success) : invalid_value;
}
STUB(int, cusparseSetPointerMode)(Handle*, int) { return success; }
STUB(const char*, cusparseGetErrorString)(int status) {
  return status == success         ? "success"
         : status == invalid_value ? "invalid value"
                                   : "operation not supported";
}

STUB(int, cusparseCreateMatDescr)(Matrix** place) { return make(place); }
STUB(int, cusparseDestroyMatDescr)(Matrix* matrix) { return destroy(matrix); }
STUB(int, cusparseSetMatType)(Matrix*, int) { return success; }
STUB(int, cusparseSetMatFillMode)(Matrix*, int) { return success; }
STUB(int, cusparseSetMatDiagType)(Matrix*, int) { return success; }
STUB(int, cusparseSetMatIndexBase)(Matrix*, int) { return success; }

STUB(int, cusparseCreateCsr)
(Matrix** place, std::int64_t rows, std::int64_t columns, std::int64_t entries, void*, void*, void*,
 int index, int, int, int type) {
  return make(place, {rows, columns, entries, index, type});
}
STUB(int, cusparseCreateCsc)
(Matrix** place, std::int64_t rows, std::int64_t columns, std::int64_t entries, void*, void*, void*,
 int index, int, int, int type) {
  return make(place, {rows, columns, entries, index, type, 1, false});
}
STUB(int, cusparseCreateCoo)
(Matrix** place, std::int64_t rows, std::int64_t columns, std::int64_t entries, void*, void*, void*,
 int index, int, int type) {
  return make(place, {rows, columns, entries, index, type, 1, false});
}
STUB(int, cusparseCreateDnMat)
(Matrix** place, std::int64_t rows, std::int64_t columns, std::int64_t, void*, int type, int) {
  return make(place, {rows, columns, rows * columns, 0, type});
}
STUB(int, cusparseCreateDnVec)(Matrix** place, std::int64_t size, void*, int type) {
  return make(place, {size, 1, size, 0, type});
}
STUB(int, cusparseDestroySpMat)(Matrix* matrix) { return destroy(matrix); }
STUB(int, cusparseDestroyDnMat)(Matrix* matrix) { return destroy(matrix); }
STUB(int, cusparseDestroyDnVec)(Matrix* matrix) { return destroy(matrix); }
STUB(int, cusparseCsrSetStridedBatch)(Matrix* matrix, int count, std::int64_t, std::int64_t) {
  return batch(matrix, count);
}
STUB(int, cusparseDnMatSetStridedBatch)(Matrix* matrix, int count, std::int64_t) {
  return batch(matrix, count);
}
STUB(int, cusparseSpMatSetAttribute)(Matrix*, int, void*, std::size_t) { return success; }

STUB(int, cusparseSpMM_bufferSize)
(Handle*, int operation, int, const void*, const Matrix* a, const Matrix*, const void*,
 const Matrix* c, int, int algorithm, std::size_t* size) {
  return made(c) ? give(size, a, c->columns, operation, algorithm)
                 : static_cast<int>(invalid_value);
}
STUB(int, cusparseSpMV_bufferSize)
(Handle*, int operation, const void*, const Matrix* a, const Matrix*, const void*, const Matrix*,
 int, int, std::size_t* size) {
  return give(size, a, 1, operation, made(a) && a->index == index_32 ? csr_alg1 : 0);
}
// A byte in every call that was recorded.
STUB(int, cusparseSDDMM_bufferSize)
(Handle*, int, int, const void*, const Matrix*, const Matrix*, const void*, const Matrix*, int, int,
 std::size_t* size) {
  return size ? (*size = 1, success) : invalid_value;
}

// Products of two sparse matrices. The entries of the result, and the products that are added up to
// them, are those that the operator layer counts by the indices.
STUB(int, cusparseSpGEMM_createDescr)(int** place) { return make(place); }
STUB(int, cusparseSpGEMM_destroyDescr)(int* descriptor) { return destroy(descriptor); }
STUB(int, cusparseCsrSetPointers)(Matrix* matrix, void*, void*, void*) {
  return made(matrix) ? success : invalid_value;
}
STUB(int, cusparseSpMatGetSize)
(const Matrix* matrix, std::int64_t* rows, std::int64_t* columns, std::int64_t* entries) {
  if (!made(matrix) || !rows || !columns || !entries) return invalid_value;
  const std::int64_t counted = tidemark::device::sparse_product().entries;
  if (counted < 0) return refuse_product();
  *rows = matrix->rows, *columns = matrix->columns, *entries = counted;
  return success;
}
// An H100: 24 products of a matrix and its transpose, to the byte.
STUB(int, cusparseSpGEMM_workEstimation)
(Handle*, int, int, const void*, const Matrix* a, const Matrix* b, const void*, const Matrix*, int,
 int, const int*, std::size_t* size, const void*) {
  if (!made(a) || !made(b) || !size) return invalid_value;
  const std::int64_t bytes = 12 * a->entries + aligned(8 * parts(a->entries, 448)) + 823;
  const bool recorded = a->entries == b->entries && tidemark::device::is_hopper();
  *size = static_cast<std::size_t>(bytes);
  if (!recorded) tidemark::device::modelled("cuSPARSE", *size);
  return success;
}
// Each product twice, with its row and its column, and some bytes for each row: 0.1 to 7 % below
// what the same calls asked for.
STUB(int, cusparseSpGEMM_compute)
(Handle*, int, int, const void*, const Matrix* a, const Matrix*, const void*, const Matrix*, int,
 int, const int*, std::size_t* size, const void*) {
  if (!made(a) || !size) return invalid_value;
  const std::int64_t products = tidemark::device::sparse_product().products;
  if (products < 0) return refuse_product();
  const std::int64_t each = 16 + 2 * bytes_of(a->type);
  *size = tidemark::device::modelled(
      "cuSPARSE", static_cast<std::size_t>(products * each + 3847 + a->rows * 41 / 4));
  return success;
}
STUB(int, cusparseSpGEMM_copy)(Handle* handle) { return compute(handle, "SpGEMM"); }
