// State that the sharded units of one model share: the layout (which memory a gather uses, on which
// streams it runs), the streams, and what is under way within a step. The structure follows PyTorch
// 2.11's FSDP2 (torch/distributed/fsdp/_fully_shard) call by call, so that the allocator sees the
// same sequence.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/parallel/communicator.h"

namespace tidemark {

class ShardedUnit;

/// A gather that has been launched and not yet copied out.
struct Gathered {
  at::Tensor flat;
  c10::cuda::CUDAEvent end;  // of a synchronous gather
  std::unique_ptr<Work> work;
};

/// Makes the one stream wait for all that the other one has got.
void wait_for(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& waited);

/// True if this error says that the memory of a freed parameter was read.
bool reads_freed_parameter(const c10::Error& error);

class ShardedStep {
 public:
  /// `communicator` may be null on one rank.
  ShardedStep(Communicator* communicator, const ShardingOptions& options);

  int ranks() const { return communicator ? communicator->size() : 1; }
  int rank() const { return communicator ? communicator->rank() : 0; }

  /// Before the forward of the whole model: gathers may not overtake the optimizer.
  void begin_forward();
  /// After it: releases the last gathered buffer.
  void end_forward();
  /// Asks the autograd engine for end_backward() at the end of this backward pass, once.
  void expect_end_of_backward();
  /// After an error in backward: everything gathered is freed, and the next step may begin.
  void abandon();

  /// Both gather streams wait for `event`.
  void gathers_wait_for(c10::cuda::CUDAEvent& event);
  /// On the current stream, of `input` of all ranks; one rank's own is copied. The average is
  /// NCCL's: no division of our own, as in PyTorch (for element types that cannot overflow).
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input) const;
  /// Next of the two persistent buffers, at least this large.
  at::Tensor next_buffer(std::int64_t numel, at::ScalarType type);
  /// Host-side limit of the gathers in flight: before a launch, and after a buffer was copied out
  /// (of a flat layout: a unit was freed).
  void limit_in_flight();
  void used_up();

  Communicator* communicator;
  const ShardingOptions options;
  const at::ScalarType stored, gathered, reduced;  // the options' element types
  c10::cuda::CUDAStream copy_in_stream, gather_stream, reduce_stream;

  struct Deferred {  // a copied-out buffer that lives on until the next copy-out
    Gathered gathered;
    c10::cuda::CUDAEvent copied_out;
  };
  struct Reducing {  // the reduce-scatter under way and its input
    at::Tensor input;
    c10::cuda::CUDAEvent end;
  };
  std::optional<Deferred> deferred;
  std::optional<Reducing> reducing;
  std::vector<ShardedUnit*> units;          // in order of construction
  std::vector<ShardedUnit*> forward_order;  // as the forwards have ended
  /// Told what happens, in order: "unshard", "reshard", "reduce", "hook" and "backward" of a unit
  /// (the last when it is gathered and its own nodes are about to run), and, of no unit, "end of
  /// backward" before the catch-all and "finalised" after it. May be empty.
  std::function<void(const char* what, ShardedUnit* unit)> observe;
  void tell(const char* what, ShardedUnit* unit = nullptr) const {
    if (observe) observe(what, unit);
  }
  /// True if the root's gradients are reduced in this backward (see root_decides_sync).
  bool root_sync = true;

 private:
  void end_backward();

  bool end_expected_ = false;
  std::array<at::Tensor, 2> buffers_;
  std::size_t next_ = 0;
  std::deque<c10::cuda::CUDAEvent> in_flight_;
};

}  // namespace tidemark
