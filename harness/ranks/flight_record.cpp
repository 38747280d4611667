#include "harness/ranks/flight_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/record/file.h"
#include "harness/record/one_line.h"

namespace tidemark::flight {
namespace {

template <std::size_t size>
std::string text_of(const std::array<char, size>& from) {
  return {from.data(), strnlen(from.data(), size)};
}

/// The last ones, the latest first, from the second on where `back` is 1.
template <class Names>
std::string list(const Names& names, std::uint64_t count, std::uint64_t back = 0) {
  std::string text;
  for (; back < std::min<std::uint64_t>(count, names.size()); ++back)
    text += (text.empty() ? "" : ", ") + text_of(names[(count - 1 - back) % names.size()]);
  return text;
}

}  // namespace

std::filesystem::path file_of(const std::filesystem::path& session, int rank) {
  return session / fmt::format("rank-{}", rank);
}

std::string sentence(const Record& one) {
  std::string text = one.place[0] == 0 ? "before its first variant" : "in " + text_of(one.place);
  if (one.calls > 0) {
    text += one.inside ? ", waiting in " : ", after ";
    text += text_of(one.last[(one.calls - 1) % kCalls]);
    if (one.calls > 1) text += " (before that " + list(one.last, one.calls, 1) + ")";
  }
  if (one.operators > 0) text += ", last operators " + list(one.last_operators, one.operators);
  if (one.thrown[0] != 0) text += ", where it threw: " + text_of(one.thrown);
  return text;
}

std::string read(const std::filesystem::path& session) {
  std::string text;
  for (int rank = 0;; ++rank) {
    Record one;
    const std::string bytes = first_bytes(file_of(session, rank), sizeof one);
    if (bytes.size() < sizeof one) break;
    std::memcpy(&one, bytes.data(), sizeof one);
    text += fmt::format("{}rank {} was {}", rank ? "; " : "", rank, sentence(one));
  }
  return one_line(text);
}

}  // namespace tidemark::flight
