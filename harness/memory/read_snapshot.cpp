// Files of memory snapshots: pickles, JSON, gzip of them, recordings and records.
#include <fmt/format.h>

#include <optional>

#include "harness/memory/decode.h"
#include "harness/memory/process_record.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/recording.h"
#include "harness/record/file.h"
#include "harness/record/gzip.h"

namespace tidemark {
namespace {

constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 30;

}  // namespace

Snapshot parse_snapshot(std::string_view bytes, const std::string& where) {
  try {
    if (bytes.empty()) throw SnapshotError("is empty");
    std::optional<std::string> unpacked;
    if (bytes.starts_with("\x1f\x8b")) {
      unpacked = gunzip(bytes, kLargest);
      if (!unpacked) throw SnapshotError("is a damaged or cut off gzip file");
      if (unpacked->size() > kLargest)
        throw SnapshotError(fmt::format("unpacks to more than {} bytes", kLargest));
      bytes = *unpacked;
    }
    const auto first = bytes.find_first_not_of(" \t\r\n");
    const bool json =
        first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
    if (json && is_recording(bytes)) return recording(bytes);
    return decoded(bytes, json);
  } catch (const SnapshotError& error) {
    throw SnapshotError(where + ": " + error.what());
  }
}

Snapshot read_snapshot(const std::filesystem::path& path) {
  std::string bytes;
  try {
    bytes = read_bytes(path, "a file of torch.cuda.memory._dump_snapshot()", kLargest);
  } catch (const std::runtime_error& error) {
    throw SnapshotError(error.what());
  }
  if (is_record(bytes)) return record_snapshot(path);
  return parse_snapshot(bytes, path.string());
}

}  // namespace tidemark
