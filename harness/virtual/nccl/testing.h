// Fixtures of the tests of this folder: the ranks of the test, device memory, and numbers decoded
// and rounded without any of the library's own arithmetic.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tidemark::nccl::testing {

#define EXPECT_NCCL(call) EXPECT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
#define ASSERT_NCCL(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

int world_rank();
int world_size();
void barrier();
/// A unique id made by `creator` (a rank of the world) and known to all. Collective over the world.
ncclUniqueId shared_id(int creator = 0);
/// A communicator of the whole world, in order. Collective.
ncclComm_t world_communicator();

/// Device memory with one byte pattern before and after, checked by intact().
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() const { return data_ + guard; }
  void write(const std::vector<std::byte>& bytes, std::size_t at = 0);
  std::vector<std::byte> read(std::size_t at, std::size_t bytes) const;
  bool intact() const;

 private:
  static constexpr std::size_t guard = 64;
  std::byte* data_ = nullptr;
  std::size_t size_;
};

/// A data type by its bits: integers by width and sign, floating types by their fields.
struct Format {
  ncclDataType_t type;
  const char* name;
  int bytes;
  bool floating;
  bool is_signed;
  int exponent_bits = 0, mantissa_bits = 0;
  double largest = 0;  // what rounding saturates to (float8); 0: infinity

  double decode(std::uint64_t bits) const;
  std::int64_t decode_integer(std::uint64_t bits) const;
  /// To nearest, ties to even, with this type's precision, subnormals and largest value.
  double round(double value) const;
  /// A random element: any integer, or a floating number near one, so that products stay finite.
  std::uint64_t random(std::mt19937_64& generator) const;
};
const std::vector<Format>& formats();

std::uint64_t element(const std::vector<std::byte>& bytes, std::size_t index, int size);
/// The elements of `rank` in test number `salt`: every rank can make those of all others.
std::vector<std::byte> elements(const Format& format, int rank, std::size_t count,
                                std::uint64_t salt);

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

/// A communicator and a stream of all ranks of the test.
class World : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const int rank_ = world_rank(), size_ = world_size();
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Sets an environment variable for a while.
class Setting {
 public:
  Setting(const char* name, const char* value);
  ~Setting();

 private:
  const char* name_;
  std::string before_;
  bool was_set_;
};

}  // namespace tidemark::nccl::testing
