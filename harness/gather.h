// A trial as all its ranks have seen it.
#pragma once

#include <functional>
#include <string>

#include "harness/record.h"
#include "harness/world.h"

namespace tidemark {

/// How a record travels between ranks (the reports know how to write one).
struct Codec {
  std::function<std::string(const TrialRecord&)> pack;
  std::function<TrialRecord(const std::string&)> unpack;
};

/// Every rank's part together on rank 0, the verdicts too; elsewhere what this rank has.
TrialRecord gather(TrialRecord mine, World& world, const Codec& codec);

}  // namespace tidemark
