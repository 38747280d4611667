#include "harness/virtual/nccl/testing.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "harness/virtual/device/testing.h"

namespace tidemark::nccl::testing {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

ncclUniqueId shared_id(int creator) {
  ncclUniqueId id{};
  if (world_rank() == creator) {
    EXPECT_NCCL(ncclGetUniqueId(&id));
  }
  MPI_Bcast(&id, sizeof id, MPI_BYTE, creator, MPI_COMM_WORLD);
  return id;
}

ncclComm_t world_communicator() {
  ncclUniqueId id = shared_id();
  ncclComm_t comm = nullptr;
  EXPECT_NCCL(ncclCommInitRank(&comm, world_size(), id, world_rank()));
  return comm;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : size_(bytes) {
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, bytes + 2 * guard), cudaSuccess);
  data_ = static_cast<std::byte*>(address);
  std::vector<std::byte> pattern(bytes + 2 * guard, std::byte{0xa5});
  EXPECT_EQ(cudaMemcpy(data_, pattern.data(), pattern.size(), cudaMemcpyHostToDevice), cudaSuccess);
}
DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

void DeviceBuffer::write(const std::vector<std::byte>& bytes, std::size_t at) {
  if (bytes.empty()) return;
  EXPECT_EQ(cudaMemcpy(data() + at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
            cudaSuccess);
}
std::vector<std::byte> DeviceBuffer::read(std::size_t at, std::size_t bytes) const {
  std::vector<std::byte> result(bytes);
  if (bytes == 0) return result;
  EXPECT_EQ(cudaMemcpy(result.data(), data() + at, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  return result;
}
bool DeviceBuffer::intact() const {
  std::vector<std::byte> all(size_ + 2 * guard);
  EXPECT_EQ(cudaMemcpy(all.data(), data_, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  for (std::size_t i = 0; i < guard; ++i) {
    if (all[i] != std::byte{0xa5} || all[all.size() - 1 - i] != std::byte{0xa5}) return false;
  }
  return true;
}

const std::vector<Format>& formats() {
  static const std::vector<Format> all{{ncclInt8, "int8", 1, false, true},
                                       {ncclUint8, "uint8", 1, false, false},
                                       {ncclInt32, "int32", 4, false, true},
                                       {ncclUint32, "uint32", 4, false, false},
                                       {ncclInt64, "int64", 8, false, true},
                                       {ncclUint64, "uint64", 8, false, false},
                                       {ncclFloat16, "float16", 2, true, true, 5, 10},
                                       {ncclFloat32, "float32", 4, true, true, 8, 23},
                                       {ncclFloat64, "float64", 8, true, true, 11, 52},
                                       {ncclBfloat16, "bfloat16", 2, true, true, 8, 7},
                                       {ncclFloat8e4m3, "float8e4m3", 1, true, true, 4, 3, 448},
                                       {ncclFloat8e5m2, "float8e5m2", 1, true, true, 5, 2, 57344}};
  return all;
}

double Format::decode(std::uint64_t bits) const {
  int bias = (1 << (exponent_bits - 1)) - 1;
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
  auto exponent =
      static_cast<int>((bits >> mantissa_bits) & ((std::uint64_t{1} << exponent_bits) - 1));
  double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1 : 1;
  auto fraction = static_cast<double>(mantissa);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa_bits);
  bool top = exponent == (1 << exponent_bits) - 1;
  if (top && type == ncclFloat8e4m3 && mantissa == 7) return NAN;
  if (top && type != ncclFloat8e4m3) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign *
         std::ldexp(fraction + std::ldexp(1.0, mantissa_bits), exponent - bias - mantissa_bits);
}

std::int64_t Format::decode_integer(std::uint64_t bits) const {
  int unused = 64 - 8 * bytes;
  auto shifted = bits << unused;
  return is_signed ? static_cast<std::int64_t>(shifted) >> unused
                   : static_cast<std::int64_t>(shifted >> unused);
}

double Format::round(double value) const {
  if (mantissa_bits == 52 || value == 0 || !std::isfinite(value)) return value;
  int lowest = 2 - (1 << (exponent_bits - 1));  // exponent of the smallest normal number
  double unit = std::ldexp(1.0, std::max(std::ilogb(value), lowest) - mantissa_bits);
  double rounded = std::nearbyint(value / unit) * unit;
  if (largest > 0 && std::fabs(rounded) > largest) return std::copysign(largest, rounded);
  double limit = std::ldexp(2 - std::ldexp(1.0, -mantissa_bits), (1 << (exponent_bits - 1)) - 1);
  return largest == 0 && std::fabs(rounded) > limit ? std::copysign(INFINITY, rounded) : rounded;
}

std::uint64_t Format::random(std::mt19937_64& generator) const {
  std::uint64_t bits = generator();
  if (!floating)
    return bytes == 8 ? bits & 0xffffffffff : bits & ((std::uint64_t{1} << (8 * bytes)) - 1);
  auto bias = static_cast<std::uint64_t>((1 << (exponent_bits - 1)) - 1);
  std::uint64_t exponent = bias - 2 + ((bits >> 60) & 3);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
  std::uint64_t sign = (bits >> 58) & 1;
  return (sign << (exponent_bits + mantissa_bits)) | (exponent << mantissa_bits) | mantissa;
}

std::uint64_t element(const std::vector<std::byte>& bytes, std::size_t index, int size) {
  std::uint64_t bits = 0;
  auto width = static_cast<std::size_t>(size);
  std::memcpy(&bits, bytes.data() + index * width, width);
  return bits;
}

std::vector<std::byte> elements(const Format& format, int rank, std::size_t count,
                                std::uint64_t salt) {
  std::mt19937_64 generator(salt * 1000003 + static_cast<std::uint64_t>(rank));
  auto width = static_cast<std::size_t>(format.bytes);
  std::vector<std::byte> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = format.random(generator);
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

std::vector<Kernel> traced_kernels() {
  std::vector<Kernel> kernels;
  for (const tidemark_span& one : device::testing::traced()) {
    const std::string name = one.name;
    if (name.starts_with("nccl")) kernels.push_back({name, one.begin, one.end});
  }
  return kernels;
}

const char* name_of(Op op) {
  constexpr const char* names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                   "ncclBroadcast", "ncclReduce",    "ncclAlltoAll",
                                   "ncclGather",    "ncclScatter",   "ncclBcast"};
  return names[static_cast<std::size_t>(op)];
}

ncclResult_t call(Op op, const Arguments& a) {
  switch (op) {
    case Op::all_reduce:
      return ncclAllReduce(a.send, a.recv, a.count, a.type, a.reduction, a.comm, a.stream);
    case Op::all_gather:
      return ncclAllGather(a.send, a.recv, a.count, a.type, a.comm, a.stream);
    case Op::reduce_scatter:
      return ncclReduceScatter(a.send, a.recv, a.count, a.type, a.reduction, a.comm, a.stream);
    case Op::broadcast:
      return ncclBroadcast(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream);
    case Op::reduce:
      return ncclReduce(a.send, a.recv, a.count, a.type, a.reduction, a.root, a.comm, a.stream);
    case Op::all_to_all:
      return ncclAlltoAll(a.send, a.recv, a.count, a.type, a.comm, a.stream);
    case Op::gather:
      return ncclGather(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream);
    case Op::scatter:
      return ncclScatter(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream);
    case Op::bcast:
      return ncclBcast(a.recv, a.count, a.type, a.root, a.comm, a.stream);
  }
  return ncclInternalError;
}

void World::SetUp() {
  setenv("TIDEMARK_TIMEOUT", "60", 0);
  comm_ = world_communicator();
  ASSERT_NE(comm_, nullptr);
  ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
}

void World::TearDown() {
  EXPECT_NCCL(ncclCommDestroy(comm_));
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  tidemark_device_set_data(0);
}

Setting::Setting(const char* name, const char* value) : name_(name) {
  const char* before = std::getenv(name);
  was_set_ = before != nullptr;
  if (was_set_) before_ = before;
  setenv(name, value, 1);
}
Setting::~Setting() {
  if (was_set_)
    setenv(name_, before_.c_str(), 1);
  else
    unsetenv(name_);
}

}  // namespace tidemark::nccl::testing
