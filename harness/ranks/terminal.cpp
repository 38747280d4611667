#include "harness/ranks/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "harness/ranks/launcher.h"

namespace tidemark {
namespace {

constexpr const char *kColor = "TIDEMARK_TERMINAL", *kLive = "TIDEMARK_LIVE";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_terminal(int file) { return isatty(file) != 0 && !find_launcher(); }

}  // namespace

bool in_color(const std::string& wanted, int file) {
  if (wanted != "auto") return wanted == "always";
  if (const std::string_view value = variable(kColor); !value.empty()) return value == "1";
  if (!variable("NO_COLOR").empty()) return false;
  if (const std::string_view force = variable("CLICOLOR_FORCE"); !force.empty() && force != "0")
    return true;
  return is_terminal(file);
}

bool shows_progress() { return !variable(kLive).empty() || is_terminal(STDERR_FILENO); }

void describe_terminal(const std::string& wanted) {
  setenv(kColor, in_color(wanted) ? "1" : "0", 1);
  if (shows_progress()) setenv(kLive, "1", 1);
}

}  // namespace tidemark
