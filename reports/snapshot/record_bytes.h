// Bytes of a record that `tidemark exec` makes (harness/virtual/recorder/format.h), for its
// readers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "harness/record/record.h"
#include "harness/virtual/recorder/format.h"
#include "reports/snapshot/error.h"

namespace tidemark {

struct RecordBytes {
  std::string bytes;
  const recorder::Header& header() const {
    return *reinterpret_cast<const recorder::Header*>(bytes.data());
  }
  std::string_view entries() const {
    return std::string_view(bytes).substr(recorder::kHeader).substr(0, header().moment().size);
  }
};

/// The header, and with `entries` all that is committed and in the file. None where the file is not
/// whole yet. Throws SnapshotError if it is not a record.
std::optional<RecordBytes> read_record(const std::filesystem::path& path, bool entries);

/// Reads the parts of entries, one after the other. Throws SnapshotError where one is cut off.
class Entries {
 public:
  explicit Entries(std::string_view bytes) : bytes_(bytes) {}
  bool more() const { return at_ < bytes_.size(); }
  std::size_t place() const { return at_; }
  std::uint8_t byte() {
    if (!more()) throw SnapshotError("an entry is cut off");
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::uint64_t number() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t one = byte();
      out |= std::uint64_t{one & 0x7FU} << shift;
      if ((one & 0x80U) == 0) return out;
    }
    throw SnapshotError("a number is too long");
  }
  std::int64_t bytes() { return static_cast<std::int64_t>(number()); }
  std::int64_t signed_number() {
    const std::uint64_t bits = number();
    return static_cast<std::int64_t>((bits >> 1U) ^ (~(bits & 1U) + 1));
  }
  std::string text() { return take(number()); }
  std::string take(std::uint64_t size) {
    if (size > bytes_.size() - at_) throw SnapshotError("a text is cut off");
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace tidemark
