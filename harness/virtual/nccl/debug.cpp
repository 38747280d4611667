#include "harness/virtual/nccl/debug.h"

#include <nccl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace tidemark::nccl {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string text = name.data();
  return text.substr(0, text.find('.'));
}

Level level_of(std::string_view name) {
  if (name == "VERSION") return Level::version;
  if (name == "WARN") return Level::warn;
  // ABORT and TRACE say more than INFO in NCCL; here there is no more.
  return name == "INFO" || name == "ABORT" || name == "TRACE" ? Level::info : Level::none;
}

// A list as "INIT,COLL", "ALL" or "^COLL"; without one NCCL says what belongs to the
// initialisation.
struct Subsystems {
  bool init = true, coll = false;

  explicit Subsystems(std::string_view list) {
    if (list.empty()) return;
    const bool excludes = list.front() == '^';
    if (excludes) list.remove_prefix(1);
    init = coll = excludes;
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t end = std::min(list.find(',', at), list.size());
      const std::string_view one = list.substr(at, end - at);
      if (one == "INIT" || one == "ALL") init = !excludes;
      if (one == "COLL" || one == "ALL") coll = !excludes;
      at = end + 1;
    }
  }
};

std::FILE* open_file(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    const char what = pattern[++i];
    if (what == 'h')
      path += host_name();
    else if (what == 'p')
      path += std::to_string(getpid());
    else
      path += what == '%' ? "%" : std::string{'%', what};
  }
  if (std::FILE* const file = std::fopen(path.c_str(), "w")) return file;
  std::fprintf(stderr,
               "tidemark: NCCL_DEBUG_FILE=%s cannot be written: NCCL's messages are on stdout\n",
               path.c_str());
  return stdout;
}

// As NCCL, it reads the environment once.
struct Debug {
  const Level level = level_of(environment("NCCL_DEBUG"));
  const Subsystems subsystems{environment("NCCL_DEBUG_SUBSYS")};
  const std::string host = host_name();
  std::FILE* to = stdout;

  Debug() {
    const std::string file = environment("NCCL_DEBUG_FILE");
    if (level > Level::version && !file.empty()) to = open_file(file);
  }
  void write(const std::string& line) {
    std::fputs((line + "\n").c_str(), to);
    std::fflush(to);
  }
};
std::atomic<Debug*> current;

// Never freed: another thread may be about to write.
Debug& debug() {
  static std::once_flag once;
  std::call_once(once, [] { current = new Debug; });
  return *current;
}

}  // namespace

bool says(Level level, Subsystem subsystem) {
  const Debug& d = debug();
  if (d.level < level) return false;
  return level != Level::info ||
         (subsystem == Subsystem::init ? d.subsystems.init : d.subsystems.coll);
}

void say(Level level, int device, const std::string& text) {
  debug().write(fmt::format("{}:{}:{} [{}] NCCL {} {}", debug().host, getpid(), syscall(SYS_gettid),
                            device, level == Level::warn ? "WARN" : "INFO", text));
}

void reload_debug() {
  debug();
  current = new Debug;
}

void say_version() {
  static std::once_flag once;
  if (says(Level::version))
    std::call_once(once, [] {
      debug().write(
          fmt::format("NCCL version {}.{}.{} (virtual)", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
    });
}

}  // namespace tidemark::nccl
