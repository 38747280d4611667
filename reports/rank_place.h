// A variant of a trial on a rank, as two runs name it: what is held against each other, event by
// event or number by number.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

struct RankPlace {
  std::string trial;  // scenario/size/rN/mode
  std::string schedule;
  std::string params;  // "layers=4 steps=3 seed=0": what else must be the same
  std::string variant;
  int rank = 0;

  std::string name() const;  // trial/schedule/variant/rank
  /// The same text where two runs did the same. A real GPU's own time (device) is held against
  /// calibrated.
  std::string key() const;
};

RankPlace rank_place(const TrialRecord& trial, const std::string& variant, int rank);

}  // namespace tidemark
