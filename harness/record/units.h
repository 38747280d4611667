// Figures in units for people, and figures that people write.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "harness/record/one_line.h"
#include "harness/record/record.h"

namespace tidemark {

/// One unit for a whole table, so that its figures compare at a glance.
struct ByteUnit {
  const char* name;
  double bytes;
  int decimals;
  std::string operator()(Bytes value) const;  // the figure alone; "<0.01" of less than that
};
/// The unit in which `smallest` still shows, as long as `largest` stays readable; zero and less
/// count for nothing.
ByteUnit unit_for(Bytes largest, Bytes smallest = 0);

/// "838,860,800": exact where whole, the shortest decimal otherwise.
std::string exact(double value);
std::string exact(std::integral auto value) { return exact(static_cast<double>(value)); }

/// "+1,024", "-1,024", "0".
std::string signed_bytes(Bytes by);

/// "1 regression", "1,234 verdicts"; `many` where the plural is another word.
std::string plural(std::int64_t n, const std::string& what, const std::string& many = "");

/// "90.1 GiB", "1 TiB", "512 bytes": three digits at least, no more than one behind the point.
std::string bytes_text(Bytes bytes);
/// The same with a sign: "+3.6 GiB", "-512 bytes".
std::string signed_text(Bytes by);
/// Bytes as a user writes them: 6442450944, 6GiB, 80GB, 1.5TiB, 80B; none for anything else, for
/// less than one, for what is not a whole number of bytes, and for less than 1 MiB without a unit.
std::optional<Bytes> parse_bytes(const std::string& text);
/// The same, and zero: 0, 0B, 0GiB.
std::optional<Bytes> parse_bytes_or_zero(const std::string& text);
/// The error for a flag with a text that parse_bytes does not read.
std::string not_bytes(const std::string& flag, const std::string& text);

std::string duration(Ns ns);  // "53.2 ms"

}  // namespace tidemark
