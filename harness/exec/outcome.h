// Outcome of a program in a few lines, the answer first: out of memory, ended early, grows, fits.
#pragma once

#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"
#include "harness/record/record.h"

namespace tidemark {

/// The lines of a trial's program; `peak` is that of its snapshots, or empty without --report.
std::vector<std::string> outcome_of(const TrialRecord& trial, const HighestPeak& peak,
                                    const RunRecord& run);

/// True if a process of the program has called NCCL.
bool calls_nccl(const ProgramRecord& program);

/// Subtracts NCCL's memory from the capacity of the run where a program has called NCCL.
void settle_capacity(Report& report);

/// "rank 0 and 3 others use GPU 0 at the same time, ...": they may need more than `capacity`.
std::string shared_text(const SharedGpu& gpu, Bytes capacity);

/// The words of the command by which `tidemark advise` or `tidemark fit` tries what would help.
std::string advice_command(const std::string& gpu, const std::vector<std::string>& flags,
                           const std::vector<std::string>& program);

}  // namespace tidemark
