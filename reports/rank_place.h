// The place of a record in a run (trial, schedule, variant, rank), by which compare --events and
// compare --numbers find the same place in another run.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

struct RankPlace {
  std::string trial;  // scenario/size/rN/mode
  std::string schedule;
  std::string params;  // "layers=4 steps=3 seed=0": settings that must be the same too
  std::string variant;
  int rank = 0;

  std::string name() const;  // trial/schedule/variant/rank
  /// Equal for the same work in two runs. A real GPU's own schedule (device) is compared
  /// with calibrated.
  std::string key() const;
};

RankPlace rank_place(const TrialRecord& trial, const std::string& variant, int rank);

}  // namespace tidemark
