#include "harness/virtual/nccl/timeline.h"

#include <algorithm>

#include "harness/virtual/nccl/cuda.h"

namespace tidemark::nccl {

std::size_t Timeline::add(const Operation& op) {
  auto same = [&](const Launch& one) {
    return one.device == op.comm->device && one.stream == op.stream;
  };
  auto place = std::find_if(launches_.begin(), launches_.end(), same);
  if (place == launches_.end()) {
    Launch fresh;
    fresh.device = op.comm->device;
    fresh.stream = op.stream;
    place = launches_.insert(launches_.end(), fresh);
  }
  Launch& launch = *place;
  auto index = static_cast<std::size_t>(place - launches_.begin());
  if (!op.takes_time()) return index;
  if (launch.kernel.empty()) launch.kernel = kernel_name(op.call);
  auto bytes = static_cast<double>(op.bytes());
  if (op.stays_here()) {
    if (op.call.function != Function::send && op.send != op.recv) launch.copied += 2 * bytes;
    return index;
  }
  launch.between_ranks = true;
  if (is_collective(op.call.function)) {
    launch.collectives += collective_cost(op.call, op.comm->members.places, links_);
  } else {
    const std::vector<int>& at = op.comm->members.places;
    Traffic& way = op.call.function == Function::send ? launch.out : launch.in;
    way.add(bytes, at[static_cast<std::size_t>(op.comm->rank)],
            at[static_cast<std::size_t>(op.call.root)], links_);
  }
  return index;
}

void Timeline::begin() {
  for (Launch& launch : launches_) {
    if (!launch.between_ranks) continue;
    cuda::OnDevice on(launch.device);
    launch.start = launch.latest = device::begin_collective(launch.stream);
  }
}

void Timeline::take_in(std::size_t index, Ns participant) {
  launches_[index].latest = std::max(launches_[index].latest, participant);
}

void Timeline::end(bool completed) {
  for (const Launch& launch : launches_) {
    cuda::OnDevice on(launch.device);
    if (launch.between_ranks) {
      Ns end = completed ? launch.latest + launch.cost(links_) : launch.start;
      device::end_collective(launch.stream, launch.kernel, completed ? launch.latest : launch.start,
                             end);
    } else if (completed && launch.copied > 0) {
      device::Cost cost;
      cost.bytes = launch.copied;
      device::enqueue(launch.stream, launch.kernel, cost);
    }
  }
}

Ns Timeline::Launch::cost(const device::Links& links) const {
  return collectives + std::max(out.cost(links), in.cost(links));
}

Ns Timeline::estimate() const {
  Ns longest = 0;
  for (const Launch& launch : launches_) longest = std::max(longest, launch.cost(links_));
  return longest;
}

}  // namespace tidemark::nccl
