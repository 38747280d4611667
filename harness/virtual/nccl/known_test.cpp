// Mode known: collectives carry values between ranks, and whether there are any.
#include <numeric>

#include "harness/virtual/device/control.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

constexpr std::size_t kChunked = 12000;  // floats: from three ranks on, an all-reduce in two halves

class Known : public World {
 protected:
  Known() : World(2) {}

  // rank + 1, rank + 2 ...; and a receive buffer that is known to hold something else.
  void fill(std::size_t sent, std::size_t received) {
    std::vector<float> values(sent);
    std::iota(values.begin(), values.end(), static_cast<float>(rank_ + 1));
    send_buffer_.write(values);
    recv_buffer_.write(std::vector<float>(received, -7));
  }
  void forget(std::size_t begin, std::size_t count) {
    if (rank_ == size_ - 1) tidemark_device_mark_known(send_ + begin, 4 * count, 0);
  }
  bool known(std::size_t begin, std::size_t count) const {
    return tidemark_device_is_known(recv_ + begin, 4 * count) != 0;
  }
  float at(std::size_t place) const { return recv_buffer_.read(place, 1)[0]; }

  const std::size_t ranks_ = static_cast<std::size_t>(size_);
  DeviceBuffer<float> send_buffer_{4 << 20}, recv_buffer_{4 << 20};
  float *const send_ = send_buffer_.data(), *const recv_ = recv_buffer_.data();
};

TEST_F(Known, ASumIsKnownWhereAllPartsAre) {
  for (const std::size_t count : {std::size_t{9}, kChunked}) {
    fill(count, count);
    EXPECT_NCCL(ncclAllReduce(send_, recv_, count, ncclFloat32, ncclSum, comm_, nullptr));
    EXPECT_TRUE(known(0, count));
    for (const std::size_t i : {std::size_t{0}, count - 1})
      EXPECT_EQ(at(i), static_cast<float>(ranks_ * i + ranks_ * (ranks_ + 1) / 2));
    forget(count - 1, 1);
    EXPECT_NCCL(ncclAllReduce(send_, recv_, count, ncclFloat32, ncclSum, comm_, nullptr));
    EXPECT_FALSE(known(count - 1, 1));
  }
  fill(ranks_, 1);
  forget(0, 1);  // of what is for rank 0
  EXPECT_NCCL(ncclReduceScatter(send_, recv_, 1, ncclFloat32, ncclMax, comm_, nullptr));
  EXPECT_EQ(known(0, 1), rank_ != 0);
  if (rank_ != 0) EXPECT_EQ(at(0), static_cast<float>(rank_ + size_));
}

TEST_F(Known, EachPartBringsItsOwnState) {
  fill(1, ranks_);
  forget(0, 1);
  EXPECT_NCCL(ncclAllGather(send_, recv_, 1, ncclFloat32, comm_, nullptr));
  for (std::size_t r = 0; r < ranks_; ++r) {
    EXPECT_EQ(known(r, 1), r + 1 < ranks_);
    if (known(r, 1)) EXPECT_EQ(at(r), static_cast<float>(r + 1));
  }
  fill(1, 1);
  forget(0, 1);
  EXPECT_NCCL(ncclBroadcast(send_, recv_, 1, ncclFloat32, 0, comm_, nullptr));
  EXPECT_EQ(known(0, 1), size_ > 1);
  if (size_ > 1) EXPECT_EQ(at(0), 1);
  EXPECT_NCCL(ncclBroadcast(send_, recv_, 1, ncclFloat32, size_ - 1, comm_, nullptr));
  EXPECT_FALSE(known(0, 1));
  fill(1, 1);
  forget(0, 1);
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclSend(send_, 1, ncclFloat32, (rank_ + 1) % size_, comm_, nullptr));
  EXPECT_NCCL(ncclRecv(recv_, 1, ncclFloat32, (rank_ + size_ - 1) % size_, comm_, nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(known(0, 1), rank_ != 0);
}

TEST_F(Known, MoreThanTheLimitDoesNotTravel) {
  const std::size_t most = tidemark_device_known_limit() / 4;
  fill(most, most);
  EXPECT_NCCL(ncclAllReduce(send_, recv_, most, ncclFloat32, ncclSum, comm_, nullptr));
  EXPECT_TRUE(known(0, most));
  EXPECT_NCCL(ncclAllReduce(send_, recv_, most + 1, ncclFloat32, ncclSum, comm_, nullptr));
  EXPECT_FALSE(known(0, 1));
  fill(most, most);  // as integers it may be 64 times as much
  EXPECT_NCCL(ncclAllReduce(send_, recv_, most, ncclInt32, ncclMax, comm_, nullptr));
  EXPECT_TRUE(known(0, most));
}

}  // namespace
}  // namespace tidemark::nccl::testing
