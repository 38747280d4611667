// Comparison of the allocator events of two machines, above all of a virtual GPU with a real one:
// the first difference of each trace, by name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/events/events.h"

namespace tidemark {

struct EventDifference {
  std::string trace;               // EventLog::name() of the first
  std::vector<std::string> lines;  // the first event that differs, then peaks that do
};
struct EventComparison {
  int equal = 0;
  std::int64_t events = 0;  // compared with each other
  std::vector<EventDifference> different;
  std::vector<std::string> skipped;  // "trace: why"
  std::vector<std::string> alone;    // in one of the two only
  int exit_code() const;             // 0, 1 with a difference, 4 where nothing was compared
  std::string text(const std::string& first, const std::string& second) const;
};

/// Traces are the same where trial, parameters, variant and rank are, and the schedule. Of one at
/// the bracket's end (instant, lagging) or on the virtual clock every event and every peak and end
/// must be equal. A real GPU's own time (device) is compared with calibrated: there what the host
/// asks for is equal (allocations and frees, in order), and the rest is a matter of time. A trace
/// that was not held back under lagging is skipped.
EventComparison compare_events(const std::vector<EventLog>& first,
                               const std::vector<EventLog>& second);

/// Reads the events of a run's folder (`run --events`), or of a file that measured_json made.
/// Throws std::runtime_error in one line; a folder without events is an error.
std::vector<EventLog> read_events(const std::filesystem::path& path);

/// A run's folder as data to keep (reports/measured/): what it ran on, and all its events but the
/// operators' names, as JSON. Throws as read_events does.
std::string measured_json(const RunRecord& run, const std::filesystem::path& folder);

}  // namespace tidemark
