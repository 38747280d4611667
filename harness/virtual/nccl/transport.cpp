#include "harness/virtual/nccl/transport.h"

#include "harness/virtual/nccl/accesses.h"
#include "harness/virtual/nccl/drive.h"
#include "harness/virtual/nccl/timeline.h"

namespace tidemark::nccl {

void carry_out(const std::vector<Operation>& operations) {
  std::vector<Exchange> exchanges;
  Timeline timeline;
  std::vector<std::size_t> launches;
  for (const Operation& operation : operations) {
    Exchange& exchange = exchanges.emplace_back(operation);
    exchange.number();
    launches.push_back(timeline.add(operation));
  }
  timeline.begin();
  try {
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      bool timed = operations[i].takes_time() && !operations[i].stays_here();
      exchanges[i].post(timed ? timeline.start(launches[i]) : -1);
    }
    drive(exchanges);
  } catch (const Failure& failure) {
    timeline.end(false);
    mark_failed(exchanges, failure);
    throw;
  }
  for (std::size_t i = 0; i < exchanges.size(); ++i)
    timeline.take_in(launches[i], exchanges[i].latest());
  timeline.end(true);
  for (const Operation& operation : operations) note_accesses(operation);
  for (const Exchange& exchange : exchanges) {
    if (exchange.operation().finish) exchange.operation().finish(exchange);
  }
}

void settle(ncclComm&) {}  // it was done when it was called

double estimate(const std::vector<Operation>& operations) {
  Timeline timeline;
  for (const Operation& operation : operations) timeline.add(operation);
  return static_cast<double>(timeline.estimate()) / 1000;
}

bool moves_data() { return device::data_moves(); }

bool stands_for_partners() { return false; }

const char* not_supported(const char* function) {
  device::not_supported("NCCL", function);
  return "not supported by the virtual device";
}

}  // namespace tidemark::nccl
