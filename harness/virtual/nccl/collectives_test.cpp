// Every collective on real data, against a straightforward computation that each rank makes for
// itself from the elements of all ranks.
#include <gmock/gmock.h>

#include <cmath>

#include "harness/virtual/device/control.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

struct Case {
  Op op;
  const Format& format;
  std::size_t count;
  int reduction;  // 0..4 NCCL's, 5 premul-sum
  bool in_place;
  int root;
  std::uint64_t salt;
};

double scalar_of(int rank) { return 0.5 * (rank + 1); }

// Element `index` of the reduction of all ranks' buffers, decoded.
double reduced(const Case& c, const std::vector<std::vector<std::byte>>& inputs, std::size_t index,
               std::int64_t* integer) {
  double real = 0;
  std::uint64_t whole = 0;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    std::uint64_t bits = element(inputs[r], index, c.format.bytes);
    if (!c.format.floating) {
      std::int64_t value = c.format.decode_integer(bits);
      auto wide = static_cast<std::uint64_t>(value);
      if (c.reduction == 5) wide *= r + 2;
      auto sofar = static_cast<std::int64_t>(whole);
      if (r == 0)
        whole = wide;
      else if (c.reduction == ncclProd)
        whole *= wide;
      else if (c.reduction == ncclMax)
        whole = static_cast<std::uint64_t>(std::max(sofar, value));
      else if (c.reduction == ncclMin)
        whole = static_cast<std::uint64_t>(std::min(sofar, value));
      else
        whole += wide;
      continue;
    }
    double value = c.format.decode(bits);
    if (c.reduction == 5) value *= scalar_of(static_cast<int>(r));
    if (c.format.type != ncclFloat64) value = static_cast<float>(value);
    if (r == 0)
      real = value;
    else if (c.reduction == ncclProd)
      real *= value;
    else if (c.reduction == ncclMax)
      real = std::max(real, value);
    else if (c.reduction == ncclMin)
      real = std::min(real, value);
    else
      real += value;
    if (c.format.type != ncclFloat64) real = static_cast<float>(real);
  }
  auto ranks = static_cast<std::int64_t>(inputs.size());
  if (!c.format.floating) {
    *integer = static_cast<std::int64_t>(whole);
    if (c.reduction == ncclAvg) *integer /= ranks;
    *integer = c.format.decode_integer(static_cast<std::uint64_t>(*integer));
    return 0;
  }
  if (c.reduction == ncclAvg) {
    real = c.format.type == ncclFloat64 ? real / static_cast<double>(ranks)
                                        : static_cast<float>(real) / static_cast<float>(ranks);
  }
  return c.format.round(real);
}

class Collectives : public World {
 protected:
  void SetUp() override {
    tidemark_device_set_data(1);
    World::SetUp();
  }

  ncclRedOp_t reduction_of(const Case& c) {
    if (c.reduction < 5) return static_cast<ncclRedOp_t>(c.reduction);
    std::uint64_t bits = 0;
    if (!c.format.floating)
      bits = static_cast<std::uint64_t>(rank_) + 2;
    else
      bits = encode(c.format, scalar_of(rank_));
    ncclRedOp_t op{};
    EXPECT_NCCL(
        ncclRedOpCreatePreMulSum(&op, &bits, c.format.type, ncclScalarHostImmediate, comm_));
    return op;
  }

  // By search: only for the few scalars.
  static std::uint64_t encode(const Format& format, double value) {
    int exponent = std::ilogb(value);
    int bias = (1 << (format.exponent_bits - 1)) - 1;
    double mantissa =
        std::ldexp(value, format.mantissa_bits - exponent) - std::ldexp(1.0, format.mantissa_bits);
    return (static_cast<std::uint64_t>(exponent + bias) << format.mantissa_bits) |
           static_cast<std::uint64_t>(mantissa);
  }

  void check(const Case& c) {
    SCOPED_TRACE(::testing::Message()
                 << name_of(c.op) << " " << c.format.name << " count " << c.count << " reduction "
                 << c.reduction << " in place " << c.in_place << " root " << c.root);
    auto n = static_cast<std::size_t>(size_);
    auto me = static_cast<std::size_t>(rank_);
    auto width = static_cast<std::size_t>(c.format.bytes);
    bool long_send = c.op == Op::reduce_scatter || c.op == Op::all_to_all || c.op == Op::scatter;
    bool long_recv = c.op == Op::all_gather || c.op == Op::all_to_all || c.op == Op::gather;
    bool receives = (c.op != Op::reduce && c.op != Op::gather) || rank_ == c.root;
    std::vector<std::vector<std::byte>> inputs;
    for (int r = 0; r < size_; ++r)
      inputs.push_back(elements(c.format, r, c.count * (long_send ? n : 1), c.salt));

    // In place, both are one buffer, the shorter one at this rank's place in the longer.
    std::size_t send_bytes = inputs[me].size(), recv_bytes = c.count * width * (long_recv ? n : 1);
    DeviceBuffer first(std::max(send_bytes, recv_bytes)), second(recv_bytes);
    std::size_t send_at = c.in_place && long_recv && !long_send ? me * send_bytes : 0;
    std::size_t recv_at = c.in_place && long_send && !long_recv ? me * recv_bytes : 0;
    first.write(inputs[me], send_at);
    std::byte* recv = c.in_place ? first.data() + recv_at : second.data();
    ncclRedOp_t reduction = reduction_of(c);
    EXPECT_NCCL(call(c.op, {.send = first.data() + send_at,
                            .recv = recv,
                            .count = c.count,
                            .comm = comm_,
                            .stream = stream_,
                            .type = c.format.type,
                            .reduction = reduction,
                            .root = c.root}));
    if (c.reduction == 5) {
      EXPECT_NCCL(ncclRedOpDestroy(reduction, comm_));
    }
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_TRUE(first.intact() && second.intact());
    if (!receives) return;

    auto got = c.in_place ? first.read(recv_at, recv_bytes) : second.read(0, recv_bytes);
    auto expect_copy = [&](std::size_t at, const std::vector<std::byte>& from, std::size_t offset) {
      ASSERT_TRUE(std::equal(got.begin() + static_cast<std::ptrdiff_t>(at),
                             got.begin() + static_cast<std::ptrdiff_t>(at + c.count * width),
                             from.begin() + static_cast<std::ptrdiff_t>(offset)))
          << "at byte " << at;
    };
    std::size_t piece = c.count * width;
    auto root = static_cast<std::size_t>(c.root);
    for (std::size_t r = 0; r < n && long_recv; ++r) {
      expect_copy(r * piece, inputs[r], c.op == Op::all_to_all ? me * piece : 0);
    }
    if (c.op == Op::broadcast || c.op == Op::bcast) expect_copy(0, inputs[root], 0);
    if (c.op == Op::scatter) expect_copy(0, inputs[root], me * piece);
    if (c.op != Op::all_reduce && c.op != Op::reduce_scatter && c.op != Op::reduce) return;
    for (std::size_t i = 0; i < c.count; ++i) {
      std::int64_t integer = 0;
      double real =
          reduced(c, inputs, i + (c.op == Op::reduce_scatter ? me * c.count : 0), &integer);
      std::uint64_t bits = element(got, i, c.format.bytes);
      if (c.format.floating) {
        ASSERT_EQ(c.format.decode(bits), real) << "element " << i;
      } else {
        ASSERT_EQ(c.format.decode_integer(bits), integer) << "element " << i;
      }
    }
  }

  std::uint64_t salt_ = 1;
};

TEST_F(Collectives, ReductionsOfEveryTypeAreTheFoldInRankOrder) {
  for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::reduce}) {
    for (const Format& format : formats()) {
      for (int reduction = 0; reduction <= 5; ++reduction) {
        for (bool in_place : {false, true})
          check({op, format, 37, reduction, in_place, size_ - 1, ++salt_});
      }
    }
  }
}

TEST_F(Collectives, CopiesOfEveryTypeAreExact) {
  for (Op op :
       {Op::all_gather, Op::broadcast, Op::bcast, Op::all_to_all, Op::gather, Op::scatter}) {
    for (const Format& format : formats()) {
      for (bool in_place : {false, true}) {
        if (op == Op::bcast && !in_place) continue;
        if (op == Op::all_to_all && in_place) continue;  // NCCL has no in-place all-to-all
        check({op, format, 29, 0, in_place, size_ / 2, ++salt_});
      }
    }
  }
}

TEST_F(Collectives, EverySizeFromNothingToLarge) {
  std::mt19937_64 generator(20260101);
  std::vector<std::size_t> counts{0, 1, 2, 8191, 8192, 8193, 8194, 100003};
  for (int i = 0; i < 12; ++i) counts.push_back(1 + generator() % (std::size_t{1} << (4 + i)));
  for (std::size_t count : counts) {
    for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::all_gather, Op::broadcast, Op::all_to_all,
                  Op::gather, Op::scatter}) {
      const Format& format = formats()[generator() % formats().size()];
      int root = static_cast<int>(generator() % static_cast<std::uint64_t>(size_));
      bool in_place = generator() % 2 == 0 && op != Op::all_to_all;
      int reduction = static_cast<int>(generator() % 6);
      check({op, format, count, reduction, in_place, root, ++salt_});
    }
  }
}

TEST_F(Collectives, TheScalarOfAPremultipliedSumMayLieOnTheDevice) {
  float scalar = 0.25F * static_cast<float>(rank_ + 1), value = 3;
  DeviceBuffer at(sizeof scalar), buffer(sizeof value);
  ncclRedOp_t op{};
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, at.data(), ncclFloat32, ncclScalarDevice, comm_));
  ASSERT_EQ(cudaMemcpy(at.data(), &scalar, sizeof scalar, cudaMemcpyHostToDevice),
            cudaSuccess);  // after its making
  ASSERT_EQ(cudaMemcpy(buffer.data(), &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_NCCL(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclFloat32, op, comm_, stream_));
  EXPECT_NCCL(ncclRedOpDestroy(op, comm_));
  ASSERT_EQ(cudaMemcpy(&value, buffer.data(), sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 3 * 0.25F * static_cast<float>(size_ * (size_ + 1)) / 2);
}

TEST_F(Collectives, NanIsIgnoredBesideANumberByMinAndMax) {
  float value = rank_ == 0 ? NAN : 2.0F;
  DeviceBuffer buffer(sizeof value);
  for (ncclRedOp_t op : {ncclMin, ncclMax}) {
    ASSERT_EQ(cudaMemcpy(buffer.data(), &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_NCCL(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclFloat32, op, comm_, stream_));
    float got = 0;
    ASSERT_EQ(cudaMemcpy(&got, buffer.data(), sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_TRUE(size_ == 1 ? std::isnan(got) : got == 2.0F) << got;
  }
}

// 16 GiB a rank, declared but never touched: only descriptors may travel.
TEST_F(Collectives, WithoutDataNothingIsTouched) {
  tidemark_device_set_data(0);
  void* nowhere = reinterpret_cast<void*>(std::uintptr_t{0x1000});
  std::size_t count = std::size_t{1} << 34;
  EXPECT_NCCL(ncclAllReduce(nowhere, nowhere, count, ncclFloat32, ncclSum, comm_, stream_));
  EXPECT_NCCL(ncclAllGather(nowhere, nowhere, count, ncclInt8, comm_, stream_));
  EXPECT_NCCL(ncclReduceScatter(nowhere, nowhere, count, ncclBfloat16, ncclAvg, comm_, stream_));
  EXPECT_NCCL(ncclAlltoAll(nowhere, nowhere, count, ncclInt8, comm_, stream_));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclSend(nowhere, count, ncclInt64, (rank_ + 1) % size_, comm_, stream_));
  EXPECT_NCCL(ncclRecv(nowhere, count, ncclInt64, (rank_ + size_ - 1) % size_, comm_, stream_));
  EXPECT_NCCL(ncclGroupEnd());
}

}  // namespace
}  // namespace tidemark::nccl::testing
