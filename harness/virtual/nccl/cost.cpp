#include "harness/virtual/nccl/cost.h"

#include <algorithm>
#include <cmath>

namespace tidemark::nccl {
namespace {

bool share_node(int a, int b, const device::Links& links) {
  return links.ranks_per_node <= 0 || a / links.ranks_per_node == b / links.ranks_per_node;
}

// Sends of all-to-all, gather and scatter are between every pair, or with the root only; all ranks
// are done when the busiest one is.
Ns pairwise_cost(const Call& call, double bytes, const std::vector<int>& places,
                 const device::Links& links) {
  Ns longest = 0;
  auto n = static_cast<int>(places.size());
  for (int one = 0; one < n; ++one) {
    if (call.function != Function::all_to_all && one != call.root) continue;
    Traffic traffic;
    for (int other = 0; other < n; ++other) {
      if (other == one) continue;
      traffic.add(bytes, places[static_cast<std::size_t>(one)],
                  places[static_cast<std::size_t>(other)], links);
    }
    longest = std::max(longest, traffic.cost(links));
  }
  return longest;
}

}  // namespace

Ns collective_cost(const Call& call, const std::vector<int>& places, const device::Links& links) {
  auto n = static_cast<double>(places.size());
  if (places.size() == 1) return 0;
  auto bytes = static_cast<double>(call.count) * static_cast<double>(size_of(call.type));
  double on_link = bytes, steps = n - 1;
  switch (call.function) {
    case Function::all_reduce:
      on_link = 2 * (n - 1) / n * bytes;
      steps = 2 * (n - 1);
      break;
    case Function::all_gather:
    case Function::reduce_scatter:
      on_link = (n - 1) * bytes;  // the count of these is the shard's
      break;
    case Function::broadcast:
    case Function::reduce:
      break;
    default:
      return pairwise_cost(call, bytes, places, links);
  }
  bool one_node = std::all_of(places.begin(), places.end(),
                              [&](int place) { return share_node(place, places.front(), links); });
  double rate = one_node ? links.nvlink_gbps : links.network_gbps;  // GB/s are bytes/ns
  Ns latency = one_node ? links.nvlink_latency : links.network_latency;
  return std::llround(on_link / rate) + static_cast<Ns>(steps) * latency;
}

void Traffic::add(double bytes, int from, int to, const device::Links& links) {
  std::optional<double>& way = share_node(from, to, links) ? nvlink : network;
  way = way.value_or(0) + bytes;
}

Ns Traffic::cost(const device::Links& links) const {
  Ns near = nvlink ? links.nvlink_latency + std::llround(*nvlink / links.nvlink_gbps) : 0;
  Ns far = network ? links.network_latency + std::llround(*network / links.network_gbps) : 0;
  return std::max(near, far);
}

}  // namespace tidemark::nccl
