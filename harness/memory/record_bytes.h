// Bytes of a record that `tidemark exec` makes (harness/memory/format/format.h), for its
// readers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "harness/memory/error.h"
#include "harness/memory/format/entry.h"
#include "harness/memory/format/format.h"
#include "harness/record/record.h"

namespace tidemark {

struct RecordBytes {
  std::string bytes;
  const recorder::Header& header() const {
    return *reinterpret_cast<const recorder::Header*>(bytes.data());
  }
  /// Without bytes that are none at this moment.
  std::string_view entries() const {
    return std::string_view(bytes).substr(recorder::kHeader).substr(0, header().moment().size);
  }
};

/// True for the first bytes of a record, also of another version.
inline bool is_record(std::string_view begin) { return begin.starts_with("mrecord"); }

/// The header, and with `entries` all that is committed and in the file. None where the file is not
/// whole yet. Throws SnapshotError if it is not a record.
std::optional<RecordBytes> read_record(const std::filesystem::path& path, bool entries);

}  // namespace tidemark
