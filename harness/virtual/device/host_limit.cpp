#include "harness/virtual/device/host_limit.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/virtual/device/new_file.h"

namespace tidemark::device {
namespace {

using nlohmann::json;

/// As harness/exec/cause.h: the first cause of a run stays.
void leave_cause(const std::string& text) {
  const char* settings = std::getenv("TIDEMARK_EXEC_SETTINGS");
  const json given = json::parse(settings == nullptr ? "" : settings, nullptr, false);
  if (!given.is_object() || !given.contains("cause") || !given["cause"].is_string()) return;
  const int file = create_first(given["cause"].get<std::string>().c_str());
  if (file < 0) return;
  const std::string cause = json{{"code", 3}, {"process", ""}, {"text", text}}.dump();
  [[maybe_unused]] const auto written = write(file, cause.data(), cause.size());
  close(file);
}

}  // namespace

void host_refuses(const char* what, std::size_t bytes) {
  // Of no room in what was reserved at first errno says nothing: it is of an earlier call.
  const bool of_memory = errno == ENOMEM || errno == EAGAIN || errno == EMFILE || errno == ENFILE;
  const int reason = of_memory ? errno : 0;
  const std::string text = "the host refuses " + std::to_string(bytes) + " bytes of " + what +
                           (reason != 0 ? std::string(" (") + std::strerror(reason) + ")" : "") +
                           ", which says nothing about the GPU: raise the limit (ulimit -v, "
                           "vm.max_map_count, the memory "
                           "of the container)";
  leave_cause(text);
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", text.c_str());
  std::fflush(stderr);
  _exit(3);
}

}  // namespace tidemark::device
