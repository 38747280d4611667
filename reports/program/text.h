// Text about programs under `tidemark exec`, for the terminal and the page.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/html.h"

namespace tidemark {

/// One line a device: peaks of allocated, active and reserved bytes; retries, ooms, races.
std::string table(const ProgramRecord& program);

/// The lines of the program that branched on values that are not known (mode known); "" if there
/// are none.
std::string decisions(const ProgramRecord& program);
/// The values of absent partners and the unknown values that the program asked for, with the
/// answers that it got: at most ten lines, the most frequent first.
std::string unknowns(const ProgramRecord& program);

/// The schedules' bracket: for each device its peak of active memory under every schedule, and what
/// the highest has beyond the lowest, which is the price of the host's run-ahead. The first row is
/// the header; none with a single schedule.
std::vector<std::vector<std::string>> bracket(const std::vector<TrialRecord>& trials);
/// The difference between what is alive at the highest peaks of two schedules.
struct RunAhead {
  const TrialRecord* low = nullptr;   // the schedule with the lowest of these peaks
  const TrialRecord* high = nullptr;  // with the highest
  std::vector<AlivePart> parts;       // they sum to the difference; the largest first
};
/// Differences of `after` from `before`, by kind, module and line, which sum to that of the two
/// peaks; the largest number of bytes first, whatever its sign.
std::vector<AlivePart> beyond(const AliveAtPeak& before, const AliveAtPeak& after);
/// "peak of active under lagging: 1 GiB -> 1.5 GiB, +536,870,912 bytes", and a row for each of the
/// first `most` of these differences; then how many more there are, and their sum. With a picture
/// (page/waterfall.js). No rows without snapshots, and where nothing differs.
Section difference(const TrialRecord& before, const TrialRecord& after, std::size_t most);

/// Shows the difference of any peak: `parts` sum to it, the largest first.
Section waterfall(const std::string& peak, Bytes before, Bytes after,
                  const std::vector<AlivePart>& parts, std::size_t most);

/// Empty with a single schedule, without snapshots, and where the peaks are equal.
RunAhead run_ahead(const std::vector<TrialRecord>& trials);

/// Both as text; "" with a single schedule.
std::string bracket_text(const std::vector<TrialRecord>& trials);

/// The peaks in Markdown, of those that are trials of programs.
std::string programs_markdown(const std::vector<TrialRecord>& trials);

}  // namespace tidemark
