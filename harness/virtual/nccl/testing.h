// Fixtures of the tests of this folder: the ranks of the test, device memory, and numbers of every
// data type without any of the library's own arithmetic.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/virtual/nccl/testing/world.h"

namespace tidemark::nccl::testing {

/// Device memory with one byte pattern before and after, checked by intact().
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t count) : pattern_((count + 2 * kGuard) * sizeof(T), 0xa5) {
    EXPECT_EQ(cudaMalloc(&data_, pattern_.size()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, pattern_.data(), pattern_.size(), cudaMemcpyDefault), cudaSuccess);
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) {
    write(values);
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* data() const { return data_ + kGuard; }
  void write(const std::vector<T>& values, std::size_t at = 0) {
    EXPECT_EQ(cudaMemcpy(data() + at, values.data(), values.size() * sizeof(T), cudaMemcpyDefault),
              cudaSuccess);
  }
  std::vector<T> read(std::size_t at, std::size_t count) const {
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpy(values.data(), data() + at, count * sizeof(T), cudaMemcpyDefault),
              cudaSuccess);
    return values;
  }
  std::vector<T> read() const { return read(0, pattern_.size() / sizeof(T) - 2 * kGuard); }
  bool intact() const {
    std::vector<unsigned char> all(pattern_.size());
    EXPECT_EQ(cudaMemcpy(all.data(), data_, all.size(), cudaMemcpyDefault), cudaSuccess);
    constexpr std::ptrdiff_t guard = kGuard * sizeof(T);
    return std::equal(all.begin(), all.begin() + guard, pattern_.begin()) &&
           std::equal(all.end() - guard, all.end(), pattern_.begin());
  }

 private:
  static constexpr std::size_t kGuard = 64;  // elements
  T* data_ = nullptr;
  std::vector<unsigned char> pattern_;
};

/// NCCL's data types, in the order of ncclDataType_t, as PyTorch has them.
using Types = ::testing::Types<std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                               std::uint64_t, c10::Half, float, double, c10::BFloat16,
                               c10::Float8_e4m3fn, c10::Float8_e5m2>;
template <class T, class... All>
constexpr ncclDataType_t place_of(::testing::Types<All...>) {
  constexpr bool same[] = {std::is_same_v<T, All>...};
  return static_cast<ncclDataType_t>(std::ranges::find(same, true) - same);
}
template <class T>
constexpr ncclDataType_t type_of = place_of<T>(Types());

/// Numbers of 64 random bits, the same in every process.
std::vector<std::uint64_t> random_numbers(std::size_t count, std::uint64_t seed);

/// The elements of `rank` in test number `salt`: every rank can make those of all others. Integers
/// are any of up to 40 bits, floating numbers are near one, so that products stay finite.
template <class T>
std::vector<T> elements(int rank, std::size_t count, std::uint64_t salt) {
  std::vector<T> all;
  all.reserve(count);
  for (const std::uint64_t bits :
       random_numbers(count, salt * 1000003 + static_cast<std::uint64_t>(rank))) {
    if constexpr (std::is_integral_v<T>) {
      all.push_back(static_cast<T>(bits & 0xffffffffff));
    } else {
      constexpr double kScales[] = {0.25, 0.5, 1, 2, -0.25, -0.5, -1, -2};
      const double number = (1 + 0x1p-52 * static_cast<double>(bits >> 12)) * kScales[bits & 7];
      all.push_back(static_cast<T>(
          static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(number)));
    }
  }
  return all;
}

/// The ring model's trace of this process: start and end of each kernel, ns.
struct Kernel {
  std::string name;
  std::int64_t start, end;
  bool operator==(const Kernel&) const = default;
};
std::vector<Kernel> traced_kernels();

/// The collectives of NCCL's API.
enum class Op {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  bcast  // in place
};
inline constexpr Op kCollectives[] = {Op::all_reduce, Op::all_gather, Op::reduce_scatter,
                                      Op::broadcast,  Op::reduce,     Op::all_to_all,
                                      Op::gather,     Op::scatter};
/// "ncclAllReduce"
const char* name_of(Op op);
struct Arguments {
  const void* send;
  void* recv;
  std::size_t count;
  ncclComm_t comm;
  cudaStream_t stream = nullptr;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;
};
ncclResult_t call(Op op, const Arguments& a);
/// The error of a call on the communicator, or the one that it has brought once the partners have
/// called.
ncclResult_t outcome(ncclResult_t called, ncclComm_t comm);

/// A communicator and a stream of all ranks of the test. `data`: see tidemark_device_set_data. A
/// test may change TIDEMARK_TIMEOUT: the next one has the program's again, or 60 s.
class World : public ::testing::Test {
 protected:
  explicit World(int data) : data_(data) {}
  void SetUp() override;
  void TearDown() override;

  const int data_, rank_ = world_rank(), size_ = world_size();
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace tidemark::nccl::testing
