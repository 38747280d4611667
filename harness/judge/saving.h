// Savings: the bytes that a variant needs less than the baseline, by the forms or the accounts of
// both.
#pragma once

#include <vector>

#include "harness/judge/judge.h"
#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// On one rank: saving/<statistic>/<phase>[/end] and saving/trajectory/<moment>, wherever both have
/// a form, or else an account. Expected is the difference of the two sums, within the sum of their
/// slacks.
///
/// Under lagging, a fixed variant also gets saving/most: the largest saving of all that have one.
/// It must be more than 0 if the forms predict one, and 0 if they predict none.
std::vector<Verdict> savings(const Trial& trial, const RankResult& baseline,
                             const std::vector<Expectation>& before, const RankResult& seen,
                             const std::vector<Expectation>& after);

/// Over all ranks of a gathered record: saving/step of every fixed variant, the highest peak of the
/// baseline's phases on its worst rank minus that of the variant, in the scenario's own statistic.
/// Skipped with the reason where a peak has neither form nor account.
std::vector<Verdict> step_savings(const Scenario& scenario, const Trial& trial,
                                  const TrialRecord& record);

/// The figures of others that this trial can stand beside, with the peaks of the same variants
/// here.
std::vector<PublishedFigure> published_figures(const Scenario& scenario, const Trial& trial,
                                               const TrialRecord& record);

/// The scenario's symbols with their values in the forms and accounts of this trial on `rank`,
/// requested bytes.
std::vector<Symbol> symbols_of(const Scenario& scenario, const Trial& trial, int rank);

}  // namespace tidemark
