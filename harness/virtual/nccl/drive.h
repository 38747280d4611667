// Progress of several exchanges at once, until all have ended or one has failed.
#pragma once

#include <vector>

#include "harness/virtual/nccl/exchange.h"
#include "harness/virtual/nccl/waiting.h"

namespace tidemark::nccl {

/// Takes the posted exchanges as far as they come now; true: all are done. Throws Failure when one
/// never will be, or after `waiting`'s limit; every sixteenth round asks whether partners have
/// left.
bool advance(std::vector<Exchange>& exchanges, int round, const Waiting& waiting);

/// Posts all. Throws Failure where a communicator was aborted before.
void post(std::vector<Exchange>& exchanges);

/// Posts them and takes them on until all are done. Throws Failure after mark_failed.
void drive(std::vector<Exchange>& exchanges);

/// Calls Operation::finish of each exchange; the whole group has completed.
void finish(const std::vector<Exchange>& exchanges);

/// Ranks that wait for this one on one of these communicators need not wait for the time-out.
void mark_failed(const std::vector<Exchange>& exchanges, const Failure& failure);

}  // namespace tidemark::nccl
