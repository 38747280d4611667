#include "harness/virtual/nccl/transport.h"

#include "harness/virtual/device/known.h"
#include "harness/virtual/nccl/alone.h"
#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/drive.h"
#include "harness/virtual/nccl/slices.h"
#include "harness/virtual/nccl/timeline.h"

namespace tidemark::nccl {
namespace {

// For race detection: which bytes a rank's own part of an operation reads and writes, on the stream
// of the call. What the others do to their buffers is ordered by the same kernel: a send buffer may
// be overwritten by what comes after it.
void note_accesses(const Operation& op) {
  if (!op.takes_time() || (op.stays_here() && op.send == op.recv)) return;
  const Parts parts = parts_of(op);
  const cuda::OnDevice on(op.comm->device);
  const char* name = name_of(op.call.function);
  device::note_access(op.stream, name, op.send, parts.sent * op.bytes(), false);
  device::note_access(op.stream, name, op.recv, parts.received * op.bytes(), true);
}

}  // namespace

void carry_out(const std::vector<Operation>& operations) {
  device::before_collectives();
  Timeline timeline;
  std::vector<std::size_t> launches;
  for (const Operation& operation : operations) launches.push_back(timeline.add(operation));
  timeline.begin();
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    const bool timed = operation.takes_time() && !operation.stays_here();
    exchanges.emplace_back(operation, timed ? timeline.start(launches[i]) : -1).number();
    if (operation.comm->alone && device::follows_known()) stand_in(operation);
  }
  try {
    drive(exchanges);
  } catch (const Failure&) {
    timeline.end(false);
    throw;
  }
  for (std::size_t i = 0; i < exchanges.size(); ++i)
    timeline.take_in(launches[i], exchanges[i].latest());
  timeline.end(true);
  for (const Operation& operation : operations) note_accesses(operation);
  finish(exchanges);
}

void settle(ncclComm&) {}  // it was done when it was called

double estimate(const std::vector<Operation>& operations) {
  Timeline timeline;
  for (const Operation& operation : operations) timeline.add(operation);
  return static_cast<double>(timeline.estimate()) / 1000;
}

bool moves_data(const Operation& op) {
  if (!device::follows_known()) return device::data_moves();
  const bool integer = op.call.type <= ncclUint64;  // the first in the list
  const std::uint64_t limit = device::known_limit() * (integer ? device::kWholeFactor : 1);
  return largest_buffer(op) <= limit;
}

bool bytes_known(const void* address, std::size_t bytes) {
  return !device::follows_known() || device::is_known(address, bytes);
}
void mark_bytes(void* address, std::size_t bytes, bool known) {
  if (device::follows_known()) device::mark_known(address, bytes, known);
}

std::string clock_setting() { return device::clock_setting(); }

bool stands_for_partners() { return device::follows_known(); }

const char* not_supported(const char* function) {
  device::not_supported("NCCL", function);
  return "not supported by the virtual device";
}

}  // namespace tidemark::nccl
