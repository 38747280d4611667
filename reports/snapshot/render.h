// Texts, tables and JSON of what a snapshot says (harness/memory/analysis.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/memory/analysis.h"

namespace tidemark {

struct Named {
  std::string path;
  const Snapshot& snapshot;
};
/// "out of memory: module layers.3, forward model.py:3 wanted 100 bytes and the device had 60
/// free beside the allocator's 40: 30 in use, 10 in gaps and roundings; at least 30 bytes are
/// lacking".
std::string oom_text(const OutOfMemory& oom);
std::string snapshot_text(const Named& snapshot, std::size_t top);
/// Every kind with its sum and its `top` largest parts, a line each.
std::string parts_text(const std::vector<Part>& parts, std::size_t top);
/// A device's `phases`: a row for each of the first `top` steps, the highest and the last; a column
/// for each name.
std::vector<std::vector<std::string>> phase_rows(const DeviceSummary& device, std::size_t top);
/// A line for each of a device's `repeats`: "steps 3 to 4: the same events came again 1,998 times",
/// and for each of its `skipped`: "steps 90 to 4,000: 81,234 events are not kept, ...".
std::vector<std::string> repeats_lines(const DeviceSummary& device);
/// "10 of 300 bytes"; or why that is not known.
std::string waste_figure(const Waste& waste);
/// A device's `wastes`: each with its bytes and its `top` largest parts.
std::string wastes_text(const DeviceSummary& device, std::size_t top);
std::string snapshot_summary_json(const Named& snapshot);
std::string snapshot_html(const Named& snapshot, std::size_t top);
std::string difference_text(const Named& before, const Named& after, std::size_t top);
std::string difference_json(const Named& before, const Named& after);

}  // namespace tidemark
