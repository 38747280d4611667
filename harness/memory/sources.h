// Lines of source that a record's stacks name. A report keeps them with the record, since a program
// may be changed after it ran.
#pragma once

#include <string>

#include "harness/memory/record_bytes.h"

namespace tidemark {

/// The record with the lines of the user's Python that its stacks name and that nothing has changed
/// since `record_file` was written. Throws SnapshotError where it is no record.
std::string with_sources(const RecordBytes& record, const std::filesystem::path& record_file);

}  // namespace tidemark
