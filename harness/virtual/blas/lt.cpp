// cuBLASLt: descriptors keep every attribute they are given, with the header's sizes; the heuristic
// offers one algorithm that needs no workspace, so that what PyTorch allocates for it is PyTorch's
// choice alone.
#include <array>
#include <cstring>
#include <map>

#include "harness/virtual/blas/blas.h"
#include "harness/virtual/device/memory_use.h"

using namespace tidemark::blas;

namespace {
// An attribute has 8 bytes at most. One that was never set reads as zero.
struct Attributes {
  using Sizes = std::map<int, std::size_t>;
  std::map<int, std::array<unsigned char, 8>> values;

  template <class T>
  T get(int key) const {
    T value{};
    if (const auto bytes = values.find(key); bytes != values.end())
      std::memcpy(&value, bytes->second.data(), sizeof value);
    return value;
  }
  template <class T>
  void put(int key, T value) {
    std::memcpy(values[key].data(), &value, sizeof value);
  }
  Status set(int key, const void* value, std::size_t size, const Sizes& sizes) {
    const auto known = sizes.find(key);
    if (known == sizes.end() || known->second != size || !value) return invalid_value;
    std::memcpy(values[key].data(), value, size);
    return success;
  }
  // With size 0 only the size is asked for.
  Status read(int key, void* value, std::size_t size, std::size_t* written,
              const Sizes& sizes) const {
    const auto known = sizes.find(key);
    if (known == sizes.end()) return invalid_value;
    if (written) *written = known->second;
    if (size == 0) return written ? success : invalid_value;
    if (size != known->second || !value) return invalid_value;
    const auto bytes = get<std::array<unsigned char, 8>>(key);
    std::memcpy(value, bytes.data(), size);
    return success;
  }
};

// cublasLtMatmulDescAttributes_t
enum { compute_type, scale_type, pointer_mode, transpose_a, transpose_b };
const Attributes::Sizes& product_sizes() {
  static const Attributes::Sizes sizes{
      {0, 4},  {1, 4},  {2, 4},  {3, 4},  {4, 4},  {5, 4},  {6, 4},  {7, 4},  {8, 8},
      {10, 8}, {11, 8}, {12, 8}, {13, 8}, {14, 8}, {15, 4}, {17, 8}, {18, 8}, {19, 8},
      {20, 8}, {21, 8}, {22, 4}, {23, 8}, {24, 8}, {25, 1}, {26, 4}, {27, 4}, {28, 4},
      {29, 8}, {30, 8}, {31, 4}, {32, 4}, {33, 4}, {34, 4}, {35, 4}, {36, 8}, {37, 4}};
  return sizes;
}
// cublasLtMatrixLayoutAttribute_t
enum { element_type, storage_order, rows, columns, leading, batch_count, batch_stride };
const Attributes::Sizes& layout_sizes() {
  static const Attributes::Sizes sizes{{0, 4}, {1, 4}, {2, 8}, {3, 8}, {4, 8},
                                       {5, 4}, {6, 8}, {7, 8}, {8, 4}};
  return sizes;
}
// cublasLtMatmulPreferenceAttributes_t
const Attributes::Sizes& preference_sizes() {
  static const Attributes::Sizes sizes{{0, 4}, {1, 8}, {3, 4}, {5, 4}, {6, 4},
                                       {7, 4}, {8, 4}, {9, 4}, {12, 8}};
  return sizes;
}

struct Algorithm {
  std::uint64_t words[8];
};
struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

Status product_of(const Attributes* operation, const Attributes* a, const Attributes* b,
                  const Attributes* d, Product& p) {
  if (!made(operation) || !made(a) || !made(b) || !made(d)) return invalid_value;
  const auto extent = [](const Attributes* layout, int key) {
    return static_cast<std::int64_t>(layout->get<std::uint64_t>(key));
  };
  const auto type = [](const Attributes* layout) {
    return static_cast<cudaDataType>(layout->get<std::uint32_t>(element_type));
  };
  const bool ta = operation->get<std::int32_t>(transpose_a) != as_is;
  const bool tb = operation->get<std::int32_t>(transpose_b) != as_is;
  p = {.transpose_a = ta,
       .transpose_b = tb,
       .m = extent(d, rows),
       .n = extent(d, columns),
       .k = extent(a, ta ? rows : columns),
       .lda = 0,
       .ldb = 0,
       .ldc = 0,
       .a = type(a),
       .b = type(b),
       .c = type(d),
       .accumulates = false,
       .batch = d->get<std::int32_t>(batch_count)};
  const bool fits = extent(a, ta ? columns : rows) == p.m &&
                    extent(b, tb ? rows : columns) == p.n &&
                    extent(b, tb ? columns : rows) == p.k && p.batch >= 0;
  return fits ? success : invalid_value;
}
}  // namespace

CUBLAS int cublasLtCreate(void** handle) {
  if (!handle) return invalid_value;
  *handle = tidemark::device::handles<Handle>().make();
  return success;
}
CUBLAS int cublasLtDestroy(void* handle) {
  return tidemark::device::handles<Handle>().destroy(static_cast<const Handle*>(handle))
             ? success
             : not_initialized;
}
CUBLAS size_t cublasLtGetVersion() { return tidemark::kBlasVersion; }
CUBLAS size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

#define DESCRIPTOR(Name, sizes)                                                                  \
  CUBLAS int Name##Destroy(Attributes* of) {                                                     \
    return !of || tidemark::device::handles<Attributes>().destroy(of) ? success : invalid_value; \
  }                                                                                              \
  CUBLAS int Name##SetAttribute(Attributes* of, int key, const void* value, size_t size) {       \
    return made(of) ? of->set(key, value, size, sizes) : invalid_value;                          \
  }                                                                                              \
  CUBLAS int Name##GetAttribute(const Attributes* of, int key, void* value, size_t size,         \
                                size_t* written) {                                               \
    return made(of) ? of->read(key, value, size, written, sizes) : invalid_value;                \
  }
DESCRIPTOR(cublasLtMatmulDesc, product_sizes())
DESCRIPTOR(cublasLtMatrixLayout, layout_sizes())
DESCRIPTOR(cublasLtMatmulPreference, preference_sizes())

CUBLAS int cublasLtMatmulDescCreate(Attributes** out, int compute, int scale) {
  if (!out) return invalid_value;
  *out = tidemark::device::handles<Attributes>().make();
  (*out)->put(compute_type, compute);
  (*out)->put(scale_type, scale);
  return success;
}
CUBLAS int cublasLtMatrixLayoutCreate(Attributes** out, int type, uint64_t m, uint64_t n,
                                      int64_t ld) {
  if (!out) return invalid_value;
  *out = tidemark::device::handles<Attributes>().make();
  (*out)->put(element_type, static_cast<std::uint32_t>(type));
  (*out)->put(rows, m);
  (*out)->put(columns, n);
  (*out)->put(leading, ld);
  (*out)->put(batch_count, std::int32_t{1});
  return success;
}
CUBLAS int cublasLtMatmulPreferenceCreate(Attributes** out) {
  if (!out) return invalid_value;
  *out = tidemark::device::handles<Attributes>().make();
  return success;
}

CUBLAS int cublasLtMatmulAlgoGetHeuristic(void*, const Attributes* operation, const Attributes* a,
                                          const Attributes* b, const Attributes*,
                                          const Attributes* d, const Attributes*, int requested,
                                          Heuristic* results, int* returned_count) {
  Product p;
  if (requested < 1 || !results || !returned_count) return invalid_value;
  *returned_count = 0;
  if (const Status status = product_of(operation, a, b, d, p); status != success) return status;
  *results = Heuristic{};
  results->waves = 1;
  *returned_count = 1;
  return success;
}

CUBLAS int cublasLtMatmul(void*, const Attributes* operation, const void*, const void*,
                          const Attributes* a, const void*, const Attributes* b, const void* beta,
                          const void* c, const Attributes*, void* output, const Attributes* d,
                          const Algorithm*, void* workspace, size_t,
                          tidemark::device::StreamHandle stream) {
  tidemark::device::give_workspace(workspace);
  Product p;
  if (const Status status = product_of(operation, a, b, d, p); status != success) return status;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return success;
  const bool on_host = operation->get<std::int32_t>(pointer_mode) == 0;
  const int scale = operation->get<std::int32_t>(scale_type);
  const int compute = operation->get<std::int32_t>(compute_type);
  p.accumulates =
      c && output && !(on_host && is_zero(beta, scale == CUDA_R_64F || scale == CUDA_C_64F));
  if (refused("cublasLtMatmul")) return not_supported;
  tidemark::device::enqueue(stream, "LtMatmul", cost_of(p, 0, compute));
  return success;
}
