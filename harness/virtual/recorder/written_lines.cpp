#include "harness/virtual/recorder/written_lines.h"

#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "harness/virtual/device/immortal.h"

namespace tidemark::recorder {
namespace {

struct Written {
  std::mutex mutex;  // no other lock is taken under it
  std::unordered_map<std::string, std::map<int, std::vector<PythonLine>>> files;
};

Written& written() { return device::immortal<Written>(); }

}  // namespace

void stands_for(const std::string& file, int line, std::vector<PythonLine> frames) {
  const std::lock_guard lock(written().mutex);
  written().files[file][line] = std::move(frames);
}

std::vector<PythonLine> behind(const PythonLine& written_line) {
  const std::lock_guard lock(written().mutex);
  const auto file = written().files.find(written_line.file);
  if (file == written().files.end()) return {};
  const auto next = file->second.upper_bound(written_line.line);
  return next == file->second.begin() ? std::vector<PythonLine>{} : std::prev(next)->second;
}

}  // namespace tidemark::recorder

extern "C" [[gnu::visibility("default")]] void tidemark_record_written(const char* file, int line,
                                                                       std::size_t count,
                                                                       const char* const* functions,
                                                                       const char* const* files,
                                                                       const int* lines) {
  std::vector<tidemark::recorder::PythonLine> frames(count);
  for (std::size_t i = 0; i < count; ++i) frames[i] = {functions[i], files[i], lines[i]};
  tidemark::recorder::stands_for(file, line, std::move(frames));
}
