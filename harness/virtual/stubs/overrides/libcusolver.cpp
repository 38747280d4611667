// Dense decompositions and solvers. They compute nothing: numbers are those of the operators' CPU
// kernels. Workspaces follow the calls recorded on an H100 (reports/measured/h100-80g).
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/modelled.h"
#include "harness/virtual/stubs/handle.h"

namespace {

// cudaDataType: real and complex, float and double.
std::size_t size_of(int type) { return type == 0 ? 4 : type == 5 ? 16 : 8; }

// Bytes of a complex number, or 0 for real ones.
std::size_t complex_of(int type) { return type == 4 || type == 5 ? size_of(type) : 0; }

/// A workspace in bytes; `recorded` where a call of an H100 had the same sizes. One that follows
/// recorded points says between which ones, and whether it lies beyond them.
struct Workspace {
  double bytes = 0;
  bool recorded = false;
  int first = 0, last = 0;  // columns of the points; 0: a rule in closed form
  bool beyond = false;

  /// Workspace for numbers of `complex` bytes (0: real); of complex ones 8 with n = 1 is recorded.
  Workspace of(std::size_t complex, std::int64_t n) const {
    Workspace out = *this;
    out.recorded = recorded && (complex == 0 || (complex == 8 && n == 1));
    return out;
  }

  std::size_t given() const {
    const auto whole = static_cast<std::size_t>(bytes);
    if (recorded && tidemark::device::is_hopper()) return whole;
    return tidemark::device::modelled("cuSOLVER", whole, scope());
  }

  std::string scope() const {
    if (last == 0) return "";
    return "recorded from " + std::to_string(first) + " to " + std::to_string(last) +
           (beyond ? " columns, and beyond that not known"
                   : " columns, with straight lines between");
  }
};

std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

bool recorded(std::int64_t n) {
  constexpr std::int64_t kSizes[] = {1,   2,   8,   16,  31,  32,  33,   64,   100,
                                     128, 200, 256, 500, 512, 768, 1000, 1024, 2048};
  return std::find(std::begin(kSizes), std::end(kSizes), n) != std::end(kSizes);
}

struct Point {
  double n, size;
};
/// As recorded, with straight lines between. Beyond the last point, where no size is known, as n
/// squared.
template <std::size_t count>
Workspace between(const Point (&points)[count], std::int64_t size, std::size_t unit,
                  double constant = 0) {
  const auto n = static_cast<double>(size);
  const Point& last = points[count - 1];
  double interpolated = last.size * (n / last.n) * (n / last.n);
  bool at_point = false;
  for (std::size_t i = count; i-- > 0 && points[i].n >= n;) {
    const Point& above = points[i];
    const Point& below = points[i == 0 ? 0 : i - 1];
    const double part = above.n == below.n ? 0 : (above.n - n) / (above.n - below.n);
    interpolated = above.size - static_cast<double>(static_cast<std::int64_t>(
                                    std::max(part, 0.0) * (above.size - below.size)));
    at_point = above.n == n;
  }
  return {interpolated * static_cast<double>(unit) + constant, at_point,
          static_cast<int>(points[0].n), static_cast<int>(last.n), n > last.n};
}

// Blocks of 32 columns: 4 bytes for each pair of blocks.
Workspace potrf(std::int64_t n) {
  const std::int64_t blocks = up(n, 32) / 32;
  return {static_cast<double>(128 + up(4 * blocks * blocks, 32)), recorded(n)};
}

// Two lists of blocks of 32 columns, 256 bytes each; above 1,024 columns also four columns and nine
// bytes a column, of one size recorded.
Workspace getrf(std::int64_t n, std::size_t unit) {
  const std::int64_t blocks = up(n, 32) / 32;
  std::int64_t lists = 1;
  while (lists < std::min<std::int64_t>(blocks, 16)) lists *= 2;
  if (n <= 1024) return {static_cast<double>(256 * (1 + blocks + lists)), recorded(n)};
  return {static_cast<double>(9 * n + 256 + (4 * n + 256) * static_cast<std::int64_t>(unit)),
          recorded(n)};
}

// 1,024 elements for each column, 256 columns at least, and half a mebi-element.
double geqrf_elements(std::int64_t n) {
  return static_cast<double>(524288 + 1024 * std::max<std::int64_t>(n, 256));
}
Workspace geqrf(std::int64_t n, std::size_t unit) {
  return {geqrf_elements(n) * static_cast<double>(unit) + 128, recorded(n)};
}

// An m x n matrix with n reflectors. From 128 columns on a block of 128 columns, its triangle and
// two more of 128 x n; below, all of it at once.
Workspace orgqr(std::int64_t m, std::int64_t n, std::size_t unit) {
  std::int64_t elements = 128 * (m + 2 * n) + 128 * 128 + 256;
  if (n < 128) elements = 256 + 32768 + up(m * n, 32) + (n > 64 ? up((n - 64) * n, 32) : 0);
  return {static_cast<double>(elements) * static_cast<double>(unit),
          recorded(n) && (m == n || m == 2 * n)};
}

// Reflectors (k) of a square matrix on eight columns, as least squares were recorded.
Workspace ormqr(std::int64_t m, std::int64_t n, std::int64_t k, std::size_t unit) {
  const std::int64_t elements = up(2 * k * k, 32) + 256 * k + 69888 + (k > 32 ? 32 : 0);
  return {static_cast<double>(elements) * static_cast<double>(unit),
          recorded(k) && k <= 1024 && m == k && n == 8};
}

// 64 elements for each column and one more, and not below a constant.
Workspace sytrf(std::int64_t n, std::size_t unit) {
  const double least = unit == 4 ? 98432 : 106624;
  return {std::max(least, 64.0 * static_cast<double>(n + 1) * static_cast<double>(unit)),
          recorded(n)};
}

Workspace syevd(std::int64_t n, std::size_t unit) {
  constexpr Point kElements[] = {{1, 66342},     {2, 67147},     {8, 71923},     {16, 78627},
                                 {31, 92258},    {32, 93219},    {33, 94214},    {64, 127043},
                                 {100, 172411},  {128, 213059},  {200, 339219},  {256, 458819},
                                 {500, 1199611}, {512, 1245251}, {768, 2489795}, {1000, 4159987},
                                 {1024, 4357315}};
  return between(kElements, n, unit, 128);
}
Workspace syevj(std::int64_t n, std::size_t unit) {
  constexpr Point kElements[] = {{32, 3109},   {33, 4212},    {64, 7250},
                                 {100, 15288}, {128, 21700},  {200, 48595},
                                 {256, 75272}, {500, 268948}, {512, 281104}};
  return between(kElements, n, unit);
}
// Sum over the matrices of a batch. The six recorded sizes of one matrix are 64 to 160 bytes (twice
// that in double) below those of syevd without its constant, and most of each does not depend on
// the columns. So beyond them it is as syevd's, and not as n squared.
Workspace syev_batched(std::int64_t n, std::size_t unit, std::int64_t batch) {
  constexpr Point kFloat[] = {{1, 265304},  {2, 268428},  {8, 287564},
                              {16, 314412}, {31, 368872}, {32, 372716}};
  constexpr Point kDouble[] = {{1, 530576},  {2, 536824},  {8, 575096},
                               {16, 628792}, {31, 737712}, {32, 745400}};
  Workspace one = unit == 4 ? between(kFloat, n, 1) : between(kDouble, n, 1);
  if (one.beyond) one = syevd(n, unit);
  one.recorded = one.recorded && n <= 32 && batch == 4;
  one.bytes *= static_cast<double>(batch);
  return one;
}

Workspace geev(std::int64_t n, std::size_t unit) {
  constexpr Point kFloat[] = {{8, 132608},   {16, 133632}, {31, 136704},  {32, 136704},
                              {33, 137216},  {64, 149504}, {100, 186368}, {128, 262656},
                              {200, 375808}, {256, 462848}};
  constexpr Point kDouble[] = {{1, 264704},   {2, 265216},   {8, 265216},   {16, 267264},
                               {31, 272896},  {32, 273408},  {33, 273920},  {64, 298496},
                               {100, 372224}, {128, 525312}, {200, 751104}, {256, 925184}};
  if (unit != 4) return between(kDouble, n, 1, 0);
  Workspace of_float = between(kFloat, n, 1, 0);
  of_float.recorded = of_float.recorded || n <= 2;
  return of_float;
}

// Elements, of twice as many rows as columns.
Workspace gesvd(std::int64_t m, std::int64_t n, std::size_t unit) {
  constexpr Point kElements[] = {{1, 819648},    {2, 819648},   {8, 819904},    {16, 821056},
                                 {31, 825408},   {32, 825664},  {33, 826208},   {64, 844128},
                                 {100, 903264},  {128, 967072}, {200, 1116928}, {256, 1262112},
                                 {500, 2574400}, {512, 2689792}};
  Workspace workspace = between(kElements, n, unit);
  workspace.recorded = workspace.recorded && m == 2 * n;
  return workspace;
}

// Square, twice as many rows as columns, and twice as many columns as rows.
Workspace gesvdj(std::int64_t m, std::int64_t n, std::size_t unit) {
  constexpr Point kSquare[] = {{33, 7392},     {64, 13408},     {100, 29408},   {128, 42208},
                               {200, 95776},   {256, 149024},   {500, 535360},  {512, 559648},
                               {768, 1232928}, {1000, 2071712}, {1024, 2168864}};
  constexpr Point kWide[] = {{31, 788448},   {32, 788544},  {33, 788736},  {64, 794720},
                             {100, 806592},  {128, 819360}, {200, 866688}, {256, 917792},
                             {500, 2085344}, {512, 2164480}};
  constexpr Point kTall[] = {{500, 1328832}, {512, 1377536}};
  if (std::max(m, n) <= 32) return {992.0 * static_cast<double>(unit), recorded(std::min(m, n))};
  Workspace workspace;
  if (m == n) {
    workspace = between(kSquare, n, unit);
  } else if (m < n) {
    workspace = between(kWide, m, unit);
    workspace.recorded = workspace.recorded && n == 2 * m;
  } else if (n <= 256) {  // the QR decomposition's, and the reflectors
    workspace.bytes =
        (geqrf_elements(n) + 32 + static_cast<double>(up(n, 32))) * static_cast<double>(unit);
    workspace.recorded = recorded(n) && m == 2 * n;
  } else {
    workspace = between(kTall, n, unit);
    workspace.recorded = workspace.recorded && m == 2 * n;
  }
  return workspace;
}

// Float and double take the same bytes; complex numbers twice, less 64 (one size recorded).
Workspace gesvda(std::int64_t m, std::int64_t n, bool complex, std::int64_t batch) {
  constexpr Point kBytes[] = {{1, 16544},      {2, 16648},     {8, 18792},     {16, 25256},
                              {31, 48448},     {32, 50472},    {33, 780688},   {64, 1116184},
                              {100, 1621688},  {128, 2100760}, {200, 3678552}, {256, 5249560},
                              {500, 15608888}, {512, 16265752}};
  Workspace out = between(kBytes, n, 1);
  if (complex) out.bytes = 2 * out.bytes - 64;
  out.recorded = out.recorded && m == 2 * n && batch <= 1 && (!complex || n == 1);
  return out;
}

int give(int* elements, std::size_t unit, const Workspace& workspace) {
  if (!elements) return invalid_value;
  return *elements = static_cast<int>((workspace.given() + unit - 1) / unit), success;
}
int give(std::size_t* on_device, std::size_t* on_host, const Workspace& workspace) {
  if (!on_device || !on_host) return invalid_value;
  return *on_host = 0, *on_device = workspace.given(), success;
}

}  // namespace

STUB(int, cusolverDnCreate)(Handle** handle) { return make(handle); }
STUB(int, cusolverDnDestroy)(Handle* handle) { return destroy(handle); }
STUB(int, cusolverDnSetStream)(Handle* handle, tidemark::device::StreamHandle stream) {
  return set_stream(handle, stream);
}
// Parameters change no workspace here: they are not looked at.
namespace {
struct Parameters {};
}  // namespace
STUB(int, cusolverDnCreateParams)(Parameters** place) { return make(place); }
STUB(int, cusolverDnDestroyParams)(Parameters* parameters) { return destroy(parameters); }
STUB(int, cusolverDnCreateGesvdjInfo)(Parameters** place) { return make(place); }
STUB(int, cusolverDnDestroyGesvdjInfo)(Parameters* parameters) { return destroy(parameters); }
STUB(int, cusolverDnCreateSyevjInfo)(Parameters** place) { return make(place); }
STUB(int, cusolverDnDestroySyevjInfo)(Parameters* parameters) { return destroy(parameters); }
STUB(int, cusolverDnXgesvdjSetMaxSweeps)(void*, int) { return success; }
STUB(int, cusolverDnXgesvdjSetSortEig)(void*, int) { return success; }
STUB(int, cusolverDnXgesvdjSetTolerance)(void*, double) { return success; }
STUB(int, cusolverDnXsyevjSetSortEig)(void*, int) { return success; }

using Long = std::int64_t;
// Functions of 64 bits, for every type of `type`. (make_stubs.py looks for the names behind STUB.)
#define SIZE_64(workspace, ...)                                      \
  (Handle*, __VA_ARGS__, std::size_t * device, std::size_t * host) { \
    return give(device, host, (workspace).of(complex_of(type), n));  \
  }
STUB(int, cusolverDnXpotrf_bufferSize)
SIZE_64(potrf(n), void*, int, Long n, int type, const void*, Long, int)
STUB(int, cusolverDnXgeqrf_bufferSize)
SIZE_64(geqrf(n, size_of(type)), void*, Long, Long n, int type, const void*, Long, int, const void*,
        int)
STUB(int, cusolverDnXsyevd_bufferSize)
SIZE_64(syevd(n, size_of(type)), void*, int, int, Long n, int type, const void*, Long, int,
        const void*, int)
STUB(int, cusolverDnXgeev_bufferSize)
SIZE_64(geev(n, size_of(type)), void*, int, int, Long n, int type, const void*, Long, int,
        const void*, int, const void*, Long, int, const void*, Long, int)
STUB(int, cusolverDnXsyevBatched_bufferSize)
(Handle*, void*, int, int, Long n, int type, const void*, Long, int, const void*, int,
 std::size_t* device, std::size_t* host, Long batch) {
  return give(device, host, syev_batched(n, size_of(type), batch).of(complex_of(type), n));
}
STUB(int, cusolverDnXsytrs_bufferSize)
(Handle*, int, Long n, Long columns, int type, const void*, Long, const Long*, int, void*, Long,
 std::size_t* device, std::size_t* host) {
  return give(device, host,
              {static_cast<double>(n * columns) * static_cast<double>(size_of(type))});
}

// The functions of a letter: single, double, and complex of both (libraries.json, "by_hand"). They
// count in elements of `unit` bytes.
#define SIZE(t, complex, unit, name, workspace, ...) \
  STUB(int, cusolverDn##t##name##_bufferSize)        \
  (Handle*, __VA_ARGS__) { return give(size, unit, (workspace).of(complex, n)); }
#define SIZES(t, unit, c, orthogonal, multiply, symmetric, jacobi)                              \
  SIZE(t, c, unit, potrf, potrf(n), int, int n, void*, int, int* size)                          \
  SIZE(t, c, unit, getrf, getrf(n, unit), int, int n, void*, int, int* size)                    \
  SIZE(t, c, unit, geqrf, geqrf(n, unit), int, int n, void*, int, int* size)                    \
  SIZE(t, c, unit, sytrf, sytrf(n, unit), int n, void*, int, int* size)                         \
  SIZE(t, c, unit, gesvd, gesvd(m, n, unit), int m, int n, int* size)                           \
  SIZE(t, c, unit, orthogonal, orgqr(m, n, unit), int m, int n, int, const void*, int,          \
       const void*, int* size)                                                                  \
  SIZE(t, c, unit, multiply, ormqr(m, n, k, unit), int, int, int m, int n, int k, const void*,  \
       int, const void*, const void*, int, int* size)                                           \
  SIZE(t, c, unit, symmetric, syevd(n, unit), int, int, int n, const void*, int, const void*,   \
       int* size)                                                                               \
  SIZE(t, c, unit, jacobi, syevj(n, unit), int, int, int n, const void*, int, const void*,      \
       int* size, void*)                                                                        \
  SIZE(t, c, unit, jacobi##Batched, syev_batched(n, unit, batch), int, int, int n, const void*, \
       int, const void*, int* size, void*, int batch)                                           \
  SIZE(t, c, unit, gesvdj, gesvdj(m, n, unit), int, int, int m, int n, const void*, int,        \
       const void*, const void*, int, const void*, int, int* size, void*)                       \
  SIZE(t, c, unit, gesvdjBatched, gesvdj(m, n, unit), int, int m, int n, const void*, int,      \
       const void*, const void*, int, const void*, int, int* size, void*, int)                  \
  STUB(int, cusolverDn##t##gesvdaStridedBatched_bufferSize)                                     \
  (Handle*, int, int, int m, int n, const void*, int, long long, const void*, long long,        \
   const void*, int, long long, const void*, int, long long, int* size, int batch) {            \
    return give(size, unit, gesvda(m, n, c > 0, batch));                                        \
  }
SIZES(S, 4, 0, orgqr, ormqr, syevd, syevj)
SIZES(D, 8, 0, orgqr, ormqr, syevd, syevj)
SIZES(C, 8, 8, ungqr, unmqr, heevd, heevj)
SIZES(Z, 16, 16, ungqr, unmqr, heevd, heevj)
