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

}  // namespace

void collective_programs(const Add& add) {
  add("reader_beside_an_all_reduce_in_place", "ncclAllReduce", kNeg, [](Scene& s) {
    const Communicator ranks;
    ranks.all_reduce(s.x, s.side);
    if (s.right) wait(main_stream(), s.side);
    s.x.neg();
  });

  add("bucket_refilled_too_early", "ncclAllReduce", kFill, [](Scene& s) {
    const Communicator ranks;
    auto bucket = make();
    for (int i = 0; i < 2; ++i) {
      bucket.fill_(i);
      wait(s.side, main_stream());
      ranks.all_reduce(bucket, s.side);
      if (s.right) wait(main_stream(), s.side);
    }
  });

  add("collective_starts_before_its_input_is_there", kFill, "ncclAllReduce", [](Scene& s) {
    const Communicator ranks;
    s.x.fill_(1);
    if (s.right) wait(s.side, main_stream());
    ranks.all_reduce(s.x, s.side);
  });

  add("parameter_updated_while_it_is_gathered", "ncclAllGather", "aten::add_.Tensor", [](Scene& s) {
    const Communicator ranks;
    auto shard = make({128}), whole = make();
    ranks.all_gather(whole, shard, s.side);
    if (s.right) wait(main_stream(), s.side);
    shard.add_(1);
  });

  add("last_part_of_a_gather_read_too_early", "ncclAllGather", kNeg, [](Scene& s) {
    const Communicator ranks;
    auto shard = make({128}), whole = make();
    ranks.all_gather(whole, shard, s.side);
    if (s.right) wait(main_stream(), s.side);
    whole.narrow(0, 7 * 128, 128).neg();
  });

  add("input_of_a_reduce_scatter_overwritten", "ncclReduceScatter", kZero, [](Scene& s) {
    const Communicator ranks;
    auto whole = make(), shard = make({128});
    ranks.reduce_scatter(shard, whole, s.side);
    if (s.right) wait(main_stream(), s.side);
    whole.narrow(0, 1023, 1).zero_();
  });

  add("collectives_of_two_streams", "ncclAllReduce", "ncclAllReduce", [](Scene& s) {
    const Communicator data, tensor;
    const auto a = side_stream(), b = side_stream();
    data.all_reduce(s.x, a);
    if (s.right) wait(b, a);
    tensor.all_reduce(s.x, b);
  });

  add("received_activation_read_too_early", "ncclRecv", kNeg, [](Scene& s) {
    const Communicator ranks;
    EXPECT_EQ(ncclSuccess,
              ncclRecv(s.x.mutable_data_ptr(), 1024, ncclFloat32, 2, ranks.comm, s.side));
    if (s.right) wait(main_stream(), s.side);
    s.x.neg();
  });

  add("sent_activation_freed_and_reused", "ncclSend", kFill, [](Scene& s) {
    const Communicator ranks;
    {
      auto x = make();
      EXPECT_EQ(ncclSuccess,
                ncclSend(x.const_data_ptr(), 1024, ncclFloat32, 4, ranks.comm, s.side));
      if (s.right) wait(main_stream(), s.side);
    }
    auto y = make();
    y.fill_(1);
  });
}

}  // namespace tidemark::race::testing
