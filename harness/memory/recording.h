// A recording: the events and segments of a snapshot in columns, without frames and names
// (reports/measured/README.md describes the format).
#pragma once

#include <string>
#include <string_view>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// True if a JSON text is a recording, not a snapshot.
bool is_recording(std::string_view json);
/// Addresses are relative to the lowest. Throws SnapshotError.
Snapshot recording(std::string_view json);

}  // namespace tidemark
