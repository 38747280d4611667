// Texts, tables and JSON of what a snapshot says (harness/memory/analysis.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/memory/analysis.h"
#include "harness/record/units.h"

namespace tidemark {

struct Named {
  std::string path;
  const Snapshot& snapshot;
};
/// "out of memory: module layers.3, forward model.py:3 wanted 1 GiB and the device had 600 MiB free
/// beside the allocator's 400 MiB: 300 MiB in use, 100 MiB in gaps and roundings; at least 324 MiB
/// are lacking". `lacking`: without the last part, for a program of which it is known what it
/// needs.
std::string oom_text(const OutOfMemory& oom, bool lacking = true);
/// ", and the process may have 19.8 GiB (its memory fraction)"; "" where it has no limit of its
/// own.
std::string limit_text(Bytes limit);
std::string snapshot_text(const Named& snapshot, std::size_t top);
/// Every kind with its sum and its `top` largest parts, a line each; in `unit`, or all bytes.
std::string parts_text(const std::vector<Part>& parts, std::size_t top,
                       const ByteUnit* unit = nullptr);
/// A device's `phases`: a row for each of the first `top` steps, the highest and the last; a column
/// for each name. `figure`: how bytes are written, in place of all digits.
std::vector<std::vector<std::string>> phase_rows(const DeviceSummary& device, std::size_t top,
                                                 std::string (*figure)(Bytes) = nullptr);
/// A line for each of a device's `repeats`: "steps 3 to 4: the same events came again 1,998 times",
/// and for each of its `skipped`: "steps 90 to 4,000: 81,234 events are not kept, ...".
std::vector<std::string> repeats_lines(const DeviceSummary& device);
/// A device's `wastes`: each with its bytes ("10 of 300 bytes") and its `top` largest parts, or why
/// they are not known. In a `unit` those without bytes are one line.
std::string wastes_text(const DeviceSummary& device, std::size_t top,
                        const ByteUnit* unit = nullptr);
std::string snapshot_summary_json(const Named& snapshot);
/// "lives 30 us", "never freed"; empty for blocks from before the trace.
std::string lifetime(const Site& site);
/// "256 bytes at 0x200, stream 0x0: step train.py:9, waiting for 20 us".
std::string pending_line(const PendingFree& pending);
std::string difference_text(const Named& before, const Named& after, std::size_t top);
std::string difference_json(const Named& before, const Named& after);

}  // namespace tidemark
