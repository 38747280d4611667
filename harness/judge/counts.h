// Verdicts on a figure, and those that scenarios give on a rank's record (Scenario::inspect):
// counts and calls.
#pragma once

#include <string>
#include <vector>

#include "harness/record/formula.h"
#include "harness/record/record.h"

namespace tidemark {

/// Passes where `measured` lies in [low, high]. NaN was not measured, and fails.
Verdict bounded(const std::string& name, double low, double high, double measured,
                const std::string& formula);
/// Passes where `measured` is what the formula is worth.
Verdict equal(const std::string& name, const Formula& expected, double measured,
              const std::string& unit);
/// Passes where `measured` is `expected`, which `what` explains.
Verdict counted(const std::string& name, std::int64_t expected, std::int64_t measured,
                const std::string& unit, const std::string& what);
/// The number of calls with this op.
std::int64_t times(const std::vector<Call>& calls, const std::string& op);
/// Passes where the calls are the same one by one; names the first that differs.
Verdict in_order(const std::string& name, const std::vector<Call>& expected,
                 const std::vector<Call>& measured, const std::string& what);

}  // namespace tidemark
