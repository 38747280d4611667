// The plan of a fault as a user writes it: TIDEMARK_FAULT="rank=2 call=all_gather nth=7 do=throw".
#pragma once

#include <string>
#include <vector>

namespace tidemark {

struct FaultPlan {
  int rank = 0, nth = 1;   // nth: from 1, of the calls that match
  std::string call = "*";  // one of fault_calls(); * is any
  std::string action;      // throw, oom, hang, slow, exit, kill
};

/// The values of `call`.
const std::vector<std::string>& fault_calls();

/// The plan as a user writes it.
std::string text_of(const FaultPlan& plan);

/// One or more plans, parted by ';', each with a count of its own. Throws std::invalid_argument in
/// one line for anything else.
std::vector<FaultPlan> parse_faults(const std::string& text);

}  // namespace tidemark
