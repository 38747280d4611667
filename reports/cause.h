// Causes of errors and failures: one line each, however many ranks and verdicts they concern.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/overview.h"

namespace tidemark {

/// The error of a variant in a line: what, on which ranks, where. "out of memory on ranks 0-3:
/// asked 400 MiB; 276 MiB free of 6 GiB (step 1, after all_gather 19)". The full text stays in the
/// record.
std::string brief_error(const VariantRecord& variant);

/// True if the variant ended because it ran out of memory.
bool ran_out_of_memory(const VariantRecord& variant);
/// "27 variants ran out of memory: 6 GiB are too few", where no variant came to its end for this
/// reason; else empty.
std::string all_out_of_memory(const Report& report);

/// "the capacity affected this run: ..." where the allocator had to retry; else empty.
std::string shaped_by_capacity(const VariantRecord& variant);

/// One error that ended several variants under one schedule, or one variant under several.
struct Breakdown {
  const TrialRecord* trial;  // the first of them
  const VariantRecord* variant;
  std::vector<std::string> schedules, variants;
  std::string brief;
};
std::vector<Breakdown> breakdowns(const Report& report);

/// Failed verdicts that have one cause. Those of variants that ended in error are not among them.
struct FailureGroup {
  std::string variant;  // in which the cause lies
  std::string why;      // the cause; empty where nothing says it
  std::vector<Failure> failures;
};
std::vector<FailureGroup> failure_groups(const Report& report);

/// The one cause of everything that failed, or empty.
std::string common_cause(const Report& report);

}  // namespace tidemark
