// Programs whose race is with a collective, which runs on a stream of its own and uses its buffers
// until it has ended on all ranks. One rank of eight, without partners: the order is the rank's
// own.
#include <nccl.h>

#include <cstdlib>

#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {
namespace {

struct Communicator {
  ncclComm_t comm = nullptr;
  Communicator() {
    setenv("TIDEMARK_NCCL_ALONE", "1", 1);
    ncclUniqueId id{};
    EXPECT_EQ(ncclSuccess, ncclGetUniqueId(&id));
    EXPECT_EQ(ncclSuccess, ncclCommInitRank(&comm, 8, id, 3));
  }
  ~Communicator() { EXPECT_EQ(ncclSuccess, ncclCommDestroy(comm)); }
  Communicator(const Communicator&) = delete;

  void all_reduce(const at::Tensor& x, const CUDAStream& stream) const {
    EXPECT_EQ(ncclSuccess, ncclAllReduce(x.const_data_ptr(), x.mutable_data_ptr(),
                                         static_cast<std::size_t>(x.numel()), ncclFloat32, ncclSum,
                                         comm, stream));
  }
  void all_gather(const at::Tensor& out, const at::Tensor& in, const CUDAStream& stream) const {
    EXPECT_EQ(ncclSuccess,
              ncclAllGather(in.const_data_ptr(), out.mutable_data_ptr(),
                            static_cast<std::size_t>(in.numel()), ncclFloat32, comm, stream));
  }
  void reduce_scatter(const at::Tensor& out, const at::Tensor& in, const CUDAStream& stream) const {
    EXPECT_EQ(ncclSuccess, ncclReduceScatter(in.const_data_ptr(), out.mutable_data_ptr(),
                                             static_cast<std::size_t>(out.numel()), ncclFloat32,
                                             ncclSum, comm, stream));
  }
};

void reader_beside_an_all_reduce_in_place(bool right) {
  const Communicator ranks;
  auto x = make();
  const auto side = side_stream();
  ranks.all_reduce(x, side);
  if (right) wait(main_stream(), side);
  x.neg();
}

void bucket_refilled_too_early(bool right) {
  const Communicator ranks;
  auto bucket = make();
  const auto side = side_stream();
  for (int i = 0; i < 2; ++i) {
    bucket.fill_(i);
    wait(side, main_stream());
    ranks.all_reduce(bucket, side);
    if (right) wait(main_stream(), side);
  }
}

void collective_starts_before_its_input_is_there(bool right) {
  const Communicator ranks;
  auto x = make();
  const auto side = side_stream();
  x.fill_(1);
  if (right) wait(side, main_stream());
  ranks.all_reduce(x, side);
}

void parameter_updated_while_it_is_gathered(bool right) {
  const Communicator ranks;
  auto shard = make({128}), whole = make();
  const auto side = side_stream();
  ranks.all_gather(whole, shard, side);
  if (right) wait(main_stream(), side);
  shard.add_(1);
}

void last_part_of_a_gather_read_too_early(bool right) {
  const Communicator ranks;
  auto shard = make({128}), whole = make();
  const auto side = side_stream();
  ranks.all_gather(whole, shard, side);
  if (right) wait(main_stream(), side);
  whole.narrow(0, 7 * 128, 128).neg();
}

void input_of_a_reduce_scatter_overwritten(bool right) {
  const Communicator ranks;
  auto whole = make(), shard = make({128});
  const auto side = side_stream();
  ranks.reduce_scatter(shard, whole, side);
  if (right) wait(main_stream(), side);
  whole.narrow(0, 1023, 1).zero_();
}

void collectives_of_two_streams(bool right) {
  const Communicator data, tensor;
  auto x = make();
  const auto a = side_stream(), b = side_stream();
  data.all_reduce(x, a);
  if (right) wait(b, a);
  tensor.all_reduce(x, b);
}

void received_activation_read_too_early(bool right) {
  const Communicator ranks;
  auto x = make();
  const auto side = side_stream();
  EXPECT_EQ(ncclSuccess, ncclRecv(x.mutable_data_ptr(), 1024, ncclFloat32, 2, ranks.comm, side));
  if (right) wait(main_stream(), side);
  x.neg();
}

void sent_activation_freed_and_reused(bool right) {
  const Communicator ranks;
  const auto side = side_stream();
  {
    auto x = make();
    EXPECT_EQ(ncclSuccess, ncclSend(x.const_data_ptr(), 1024, ncclFloat32, 4, ranks.comm, side));
    if (right) wait(main_stream(), side);
  }
  auto y = make();
  y.fill_(1);
}

}  // namespace

std::vector<Program> collective_programs() {
  return {
      PROGRAM(reader_beside_an_all_reduce_in_place, "ncclAllReduce", "aten::neg"),
      PROGRAM(bucket_refilled_too_early, "ncclAllReduce", "aten::fill_.Scalar"),
      PROGRAM(collective_starts_before_its_input_is_there, "aten::fill_.Scalar", "ncclAllReduce"),
      PROGRAM(parameter_updated_while_it_is_gathered, "ncclAllGather", "aten::add_.Tensor"),
      PROGRAM(last_part_of_a_gather_read_too_early, "ncclAllGather", "aten::neg"),
      PROGRAM(input_of_a_reduce_scatter_overwritten, "ncclReduceScatter", "aten::zero_"),
      PROGRAM(collectives_of_two_streams, "ncclAllReduce", "ncclAllReduce"),
      PROGRAM(received_activation_read_too_early, "ncclRecv", "aten::neg"),
      PROGRAM(sent_activation_freed_and_reused, "ncclSend", "aten::fill_.Scalar"),
  };
}

}  // namespace tidemark::race::testing
