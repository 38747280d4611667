// Text about programs under `tidemark exec`, for the terminal and the page.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/html.h"

namespace tidemark {

/// True if a process had memory of a device outside PyTorch's allocator.
bool has_outside(const ProgramRecord& program);

/// Devices whose figures, and whose process's end, are equal.
struct EqualPeaks {
  std::string who;  // "rank 3", "ranks 0-7, 12 (9 ranks)"
  std::size_t count = 0;
  const ProcessRecord* process = nullptr;  // the first of them, and its device
  const DeviceRecord* device = nullptr;
};
/// By the first of each. Each device of few by itself. Points into the record.
std::vector<EqualPeaks> equal_peaks(const ProgramRecord& program);
constexpr std::size_t kHighest = 12;
/// What a table shows of them first: the kHighest with the highest peaks of active memory, the
/// highest first; where there are no more than that, all of them in their order.
std::vector<EqualPeaks> highest_of(std::vector<EqualPeaks> all);

/// One line a device: peaks of allocated, active and reserved bytes, and of those outside the
/// allocator where there are some; retries, ooms, races. Equal ones of many are one line.
std::string table(const ProgramRecord& program);

/// The lines of the program that branched on values that are not known (mode known); "" if there
/// are none.
std::string decisions(const ProgramRecord& program);
/// The values of absent partners and the unknown values that the program asked for, with the
/// answers that it got: at most ten lines, the most frequent first.
std::string unknowns(const ProgramRecord& program);

/// The schedules' bracket: for each device its peak of active memory under every schedule, and what
/// the highest has beyond the lowest, which is the price of the host's run-ahead. The first row is
/// the header; none with a single schedule. `figure`: how bytes are written, in place of all
/// digits.
std::vector<std::vector<std::string>> bracket(const std::vector<TrialRecord>& trials,
                                              std::string (*figure)(Bytes) = nullptr);
/// The largest parts of a peak, and the sum of the others.
struct LargestParts {
  std::vector<AlivePart> parts;
  std::size_t others = 0;
  Bytes rest = 0;  // of the others
};
LargestParts largest_parts(const AliveAtPeak& alive, std::size_t most);

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
/// first `most` of these differences; then how many more there are, and their sum. With a picture.
/// No rows without snapshots, and where nothing differs.
Section difference(const TrialRecord& before, const TrialRecord& after, std::size_t most);

/// Shows the difference of any peak: `parts` sum to it, the largest first.
Section waterfall(const std::string& peak, Bytes before, Bytes after,
                  const std::vector<AlivePart>& parts, std::size_t most);

/// Empty with a single schedule, without snapshots, and where the peaks are equal.
RunAhead run_ahead(const std::vector<TrialRecord>& trials);

/// Both as text; "" with a single schedule.
std::string bracket_text(const std::vector<TrialRecord>& trials);

/// summary.md of a report of programs, which is also what its page copies: the finding, how the run
/// was made, what the finding rests on, the peaks, and what was alive at the highest.
std::string programs_markdown(const Report& report);

}  // namespace tidemark
