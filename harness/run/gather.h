// A trial as all its ranks have seen it.
#pragma once

#include <functional>
#include <string>

#include "harness/ranks/world.h"
#include "harness/record/record.h"

namespace tidemark {

/// How a record travels between ranks (the reports know how to write one).
struct Codec {
  std::function<std::string(const TrialRecord&)> pack;
  std::function<TrialRecord(const std::string&)> unpack;
};

/// Adds to one rank's part of a trial another rank's, of the same variants in the same order.
void join(TrialRecord& mine, TrialRecord theirs);

/// Every rank's part together on rank 0, the verdicts too; elsewhere what this rank has.
TrialRecord gather(TrialRecord mine, World& world, const Codec& codec);

}  // namespace tidemark
