// Accounts of a plan as expectations: what a replay has alive at a moment, as a sum of named
// amounts.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario.h"
#include "reference/memory/replay.h"

namespace tidemark {

/// The sum of an account, such as "rest + 3*U + B": `rest` first, then the largest amounts. A
/// symbol that stands for tensors of several sizes is their sum. Requested bytes, or (allocated
/// and active ones) bytes rounded up to 512; `unsplit` is then what blocks have beyond that.
/// Throws std::logic_error where an allocation of the plan has no symbol.
Formula sum_of(const reference::Account& account, Statistic statistic);

/// memory/account/<statistic>/<phase>[/end]
Expectation accounted(Statistic statistic, const std::string& phase, bool at_end,
                      const reference::Account& account);
/// Expectations of the peaks of all statistics that have accounts: all but reserved.
std::vector<Expectation> accounted(const std::string& phase,
                                   const reference::Allocator::Peaks& peaks);
/// Expectations of the phase's end.
std::vector<Expectation> accounted_at_end(const std::string& phase,
                                          const reference::Predicted::Accounts& accounts);
/// trajectory/account/<moment>
Expectation accounted_at(const std::string& moment, Statistic statistic,
                         const reference::Account& account);
/// `one`, an account of allocated bytes, whichever blocks its tensors get: at least their sum, at
/// most `widest` bytes (0: 1 MiB more for each tensor over 1 MiB). None where that is too wide to
/// prove anything.
std::vector<Expectation> in_any_block(Expectation one, reference::Account account,
                                      Bytes widest = 0);

}  // namespace tidemark
