#include "harness/memory/sources.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "harness/memory/process_record.h"
#include "harness/memory/site.h"
#include "harness/record/file.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// The lines of a file without the blanks around them; none if it is newer than `ran`.
std::vector<std::string> lines_of(const std::string& file, fs::file_time_type ran) {
  constexpr std::size_t kLongest = 160, kMostSource = 16 << 20;  // bytes
  std::error_code none;
  std::vector<std::string> out;
  if (!fs::is_regular_file(file, none) || fs::last_write_time(file, none) > ran) return out;
  TextIn in(first_bytes(file, kMostSource));
  for (std::string line; std::getline(in, line);) {
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    out.push_back(line.substr(0, kLongest));
  }
  return out;
}

}  // namespace

std::string with_sources(const RecordBytes& record, const fs::path& record_file) {
  const Snapshot history = record_snapshot(record, record_file.string());
  const fs::file_time_type ran = fs::last_write_time(record_file);
  std::map<std::string, std::vector<std::string>> files;
  std::string entries(record.entries());
  for (const StackFrame& frame : history.frames) {
    if (!is_users_python(history, frame) || frame.line < 1) continue;
    const auto [lines, fresh] = files.try_emplace(frame.file);
    if (fresh) lines->second = lines_of(frame.file, ran);
    if (frame.line > std::ssize(lines->second)) continue;
    entries += static_cast<char>(recorder::Tag::source);
    recorder::put_text(entries, frame.file);
    recorder::put(entries, static_cast<std::uint64_t>(frame.line));
    recorder::put_text(entries, lines->second[static_cast<std::size_t>(frame.line - 1)]);
  }
  std::string header = record.bytes.substr(0, recorder::kHeader);
  auto* const of = reinterpret_cast<recorder::Header*>(header.data());
  recorder::Moment& moment = of->moments[of->now.load() & 1U];
  moment.size = entries.size();
  moment.left_from = moment.left_to = 0;
  return header + entries;
}

}  // namespace tidemark
