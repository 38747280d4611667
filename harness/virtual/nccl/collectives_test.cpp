// Every collective on real data of every type, against a straightforward computation that each rank
// makes for itself from the elements of all ranks.
#include <cmath>
#include <limits>
#include <random>

#include "harness/virtual/device/control.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

constexpr int kPremulSum = ncclNumOps;  // as a Case has it, beside NCCL's own reductions

struct Case {
  Op op;
  std::size_t count;
  int reduction;
  bool in_place;
  int root;
};

template <class T>
T scalar_of(std::size_t rank) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(rank + 2);
  return static_cast<T>(0.5F * static_cast<float>(rank + 1));
}

// Element `at` of the reduction of all ranks' buffers, in the order of the ranks.
template <class T>
T reduced(int reduction, const std::vector<std::vector<T>>& inputs, std::size_t at) {
  constexpr bool whole = std::is_integral_v<T>;
  // Integers wrap, as in C++ only unsigned ones may.
  using Wide = std::conditional_t<whole, std::uint64_t,
                                  std::conditional_t<std::is_same_v<T, double>, double, float>>;
  Wide total{};
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    const T one = inputs[r][at];
    auto value = static_cast<Wide>(one);
    if (reduction == kPremulSum) value *= static_cast<Wide>(scalar_of<T>(r));
    if (r == 0)
      total = value;
    else if (reduction == ncclProd)
      total *= value;
    else if (reduction == ncclMax)
      total = one > static_cast<T>(total) ? value : total;
    else if (reduction == ncclMin)
      total = one < static_cast<T>(total) ? value : total;
    else
      total += value;
  }
  if (reduction == ncclAvg) {
    if constexpr (whole)
      return static_cast<T>(static_cast<std::int64_t>(total) /
                            static_cast<std::int64_t>(inputs.size()));
    else
      total /= static_cast<Wide>(inputs.size());
  }
  if constexpr (!whole && sizeof(T) == 1) {  // saturates
    const auto most = static_cast<Wide>(std::numeric_limits<T>::max());
    total = std::clamp(total, -most, most);
  }
  return static_cast<T>(total);
}

template <class T>
class Collectives : public World {
 protected:
  Collectives() : World(1) {}

  ncclRedOp_t reduction_of(const Case& c) {
    if (c.reduction != kPremulSum) return static_cast<ncclRedOp_t>(c.reduction);
    T scalar = scalar_of<T>(me_);
    ncclRedOp_t op{};
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&op, &scalar, type_of<T>, ncclScalarHostImmediate, comm_));
    return op;
  }

  void check(const Case& c) {
    SCOPED_TRACE(::testing::Message()
                 << name_of(c.op) << " count " << c.count << " reduction " << c.reduction
                 << " in place " << c.in_place << " root " << c.root);
    const bool long_send =
        c.op == Op::reduce_scatter || c.op == Op::all_to_all || c.op == Op::scatter;
    const bool long_recv = c.op == Op::all_gather || c.op == Op::all_to_all || c.op == Op::gather;
    std::vector<std::vector<T>> inputs;
    ++salt_;
    for (int r = 0; r < size_; ++r)
      inputs.push_back(elements<T>(r, c.count * (long_send ? ranks_ : 1), salt_));

    // In place, both are one buffer, the shorter one at this rank's place in the longer.
    const std::size_t sent = inputs[me_].size(), received = c.count * (long_recv ? ranks_ : 1);
    DeviceBuffer<T> first(std::max(sent, received)), second(received);
    const std::size_t send_at = c.in_place && long_recv && !long_send ? me_ * sent : 0;
    const std::size_t recv_at = c.in_place && long_send && !long_recv ? me_ * received : 0;
    first.write(inputs[me_], send_at);
    const ncclRedOp_t reduction = reduction_of(c);
    EXPECT_NCCL(call(c.op, {.send = first.data() + send_at,
                            .recv = c.in_place ? first.data() + recv_at : second.data(),
                            .count = c.count,
                            .comm = comm_,
                            .stream = stream_,
                            .type = type_of<T>,
                            .reduction = reduction,
                            .root = c.root}));
    if (c.reduction == kPremulSum) EXPECT_NCCL(ncclRedOpDestroy(reduction, comm_));
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_TRUE(first.intact() && second.intact());
    if ((c.op == Op::reduce || c.op == Op::gather) && rank_ != c.root) return;

    std::vector<T> expected;
    const auto expect = [&](std::size_t rank, std::size_t part) {
      const auto from = inputs[rank].begin() + static_cast<std::ptrdiff_t>(part * c.count);
      expected.insert(expected.end(), from, from + static_cast<std::ptrdiff_t>(c.count));
    };
    if (long_recv) {
      for (std::size_t r = 0; r < ranks_; ++r) expect(r, c.op == Op::all_to_all ? me_ : 0);
    } else if (c.op == Op::broadcast || c.op == Op::bcast || c.op == Op::scatter) {
      expect(static_cast<std::size_t>(c.root), c.op == Op::scatter ? me_ : 0);
    } else {
      const std::size_t from = c.op == Op::reduce_scatter ? me_ * c.count : 0;
      for (std::size_t i = 0; i < c.count; ++i)
        expected.push_back(reduced(c.reduction, inputs, from + i));
    }
    const auto got = c.in_place ? first.read(recv_at, received) : second.read();
    EXPECT_TRUE(got == expected) << "from element "
                                 << std::ranges::mismatch(got, expected).in1 - got.begin();
  }

  const std::size_t ranks_ = static_cast<std::size_t>(size_), me_ = static_cast<std::size_t>(rank_);
  std::uint64_t salt_ = 1;
};
// holds: harness/virtual/README.md, Ranks
TYPED_TEST_SUITE(Collectives, Types);

TYPED_TEST(Collectives, ReductionsAreTheFoldInRankOrder) {
  for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::reduce}) {
    for (int reduction = 0; reduction <= kPremulSum; ++reduction) {
      for (bool in_place : {false, true})
        this->check({op, 37, reduction, in_place, this->size_ - 1});
    }
  }
}

TYPED_TEST(Collectives, CopiesAreExact) {
  for (Op op :
       {Op::all_gather, Op::broadcast, Op::bcast, Op::all_to_all, Op::gather, Op::scatter}) {
    for (bool in_place : {false, true}) {
      if (op == Op::bcast && !in_place) continue;
      if (op == Op::all_to_all && in_place) continue;  // NCCL has no in-place all-to-all
      this->check({op, 29, 0, in_place, this->size_ / 2});
    }
  }
}

// Every type has its share of the sizes and collectives.
TYPED_TEST(Collectives, EverySizeFromNothingToLarge) {
  std::mt19937_64 generator(20260101);
  std::vector<std::size_t> counts{0, 1, 2, 8191, 8192, 8193, 8194, 100003};
  for (int i = 0; i < 12; ++i) counts.push_back(1 + generator() % (std::size_t{1} << (4 + i)));
  int pair = 0;
  for (std::size_t count : counts) {
    for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::all_gather, Op::broadcast, Op::all_to_all,
                  Op::gather, Op::scatter}) {
      const int root = static_cast<int>(generator() % this->ranks_);
      const bool in_place = generator() % 2 == 0 && op != Op::all_to_all;
      const int reduction = static_cast<int>(generator() % (kPremulSum + 1));
      if (pair++ % ncclNumTypes == type_of<TypeParam>)
        this->check({op, count, reduction, in_place, root});
    }
  }
}

using OfFloats = Collectives<float>;

TEST_F(OfFloats, TheScalarOfAPremultipliedSumMayLieOnTheDevice) {
  const float scalar = 0.25F * static_cast<float>(rank_ + 1);
  DeviceBuffer<float> at(1), buffer(std::vector<float>{3});
  ncclRedOp_t op{};
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, at.data(), ncclFloat32, ncclScalarDevice, comm_));
  at.write({scalar});  // after its making
  EXPECT_NCCL(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclFloat32, op, comm_, stream_));
  EXPECT_NCCL(ncclRedOpDestroy(op, comm_));
  EXPECT_EQ(buffer.read()[0], 3 * 0.25F * static_cast<float>(size_ * (size_ + 1)) / 2);
}

TEST_F(OfFloats, NanIsIgnoredBesideANumberByMinAndMax) {
  for (ncclRedOp_t op : {ncclMin, ncclMax}) {
    const DeviceBuffer buffer(std::vector<float>{rank_ == 0 ? NAN : 2.0F});
    EXPECT_NCCL(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclFloat32, op, comm_, stream_));
    const float got = buffer.read()[0];
    EXPECT_TRUE(size_ == 1 ? std::isnan(got) : got == 2.0F) << got;
  }
}

// 16 GiB a rank, declared but never touched: only descriptors may travel.
TEST_F(OfFloats, WithoutDataNothingIsTouched) {
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
