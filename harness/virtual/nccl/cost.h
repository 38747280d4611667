// Cost model of collectives on the virtual clock. With n ranks, a link of B bytes/ns (one
// direction, per GPU) and latency a:
//
//   all-reduce                  2(n-1)/n * N/B + 2(n-1) a     N: bytes of the buffer
//   all-gather, reduce-scatter   (n-1)/n * N/B +  (n-1) a     N: bytes of the whole (n times the
//   shard) broadcast, reduce                      N/B +  (n-1) a     N: bytes of the buffer send,
//   recv, all-to-all, gather, scatter: a + bytes/B for what the busiest rank sends or receives (the
//   two directions at once), each kind of link by itself, the slower one counts
//
// The factors of N/B are those by which nccl-tests turns algorithm into bus bandwidth
// (doc/PERFORMANCE.md there); (n-1) a is one hop a ring step. The link is the slowest on the ring:
// NVLink while all ranks share a node, else the network. A node is `ranks_per_node` consecutive
// ranks of the job. Bytes that stay on the rank cost nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/virtual/device/device.h"
#include "harness/virtual/nccl/call.h"

namespace tidemark::nccl {

using device::Ns;

/// The duration of one collective (not of send or recv) among ranks at these places. One rank: 0.
Ns collective_cost(const Call& call, const std::vector<int>& places, const device::Links& links);

/// Bytes that a rank sends or receives in one group, by kind of link.
struct Traffic {
  std::optional<double> nvlink, network;

  void add(double bytes, int from, int to, const device::Links& links);
  Ns cost(const device::Links& links) const;
};

}  // namespace tidemark::nccl
