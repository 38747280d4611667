// Start and end times of the operations of one group. On each stream they are one fused kernel: it
// starts when the stream and every participant that it waits for are ready, and takes the sum of
// its collectives' costs plus what its sends or its receives take, whichever is longer (see
// cost.h). So
//
//   end = max(own start, latest start of the participants of each collective, start of each sender)
//   + cost
//
// A send alone does not wait (it is buffered): it ends at its own start + cost. With a single
// rank, or from a rank to itself, an operation is a copy on the device: read and written once,
// nothing when in place.
#pragma once

#include <deque>
#include <string>

#include "harness/virtual/nccl/cost.h"
#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

class Timeline {
 public:
  /// Plans one operation; returns the index of its launch.
  std::size_t add(const Operation& operation);

  /// Asks the streams when they can start.
  void begin();
  /// When launch `index` is ready, ns.
  Ns start(std::size_t index) const { return launches_[index].start; }
  void take_in(std::size_t index, Ns participant);
  /// Puts the kernels on the streams. After a failure (`completed` false) they take no time.
  void end(bool completed);

  /// The longest launch, if all were ready now.
  Ns estimate() const;

 private:
  struct Launch {
    int device = 0;
    device::StreamHandle stream = nullptr;
    std::string kernel;
    bool between_ranks = false;
    double copied = 0;  // bytes read and written on the device itself
    Ns collectives = 0;
    Traffic out, in;
    Ns start = 0, latest = 0;

    Ns cost(const device::Links& links) const;
  };

  device::Links links_ = device::links();
  std::deque<Launch> launches_;
};

}  // namespace tidemark::nccl
