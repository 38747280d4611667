#include "harness/cli/variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "harness/errors.h"
#include "harness/memory/format/format.h"
#include "harness/record/scan.h"
#include "harness/record/units.h"
#include "harness/virtual/device/setting_words.h"

namespace tidemark {
namespace {

using Text = std::string_view;

bool is_number(Text text, std::int64_t least, std::int64_t most) {
  Scan scan(text);
  const auto value = scan.number(18);
  return value && scan.done() && *value >= least && *value <= most;
}

bool each_is(Text list, auto known) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    if (!known(list.substr(at, comma - at))) return false;
    at = comma + 1;
  }
  return true;
}

bool among(Text one, const auto& words) {
  return std::ranges::any_of(words, [&](const char* word) { return one == word; });
}

bool is_schedule(Text one) { return among(one, kScheduleWords) || among(one, kOtherSchedules); }

bool is_switch(Text one) {
  return among(one, kSwitchWords) || std::ranges::any_of(kSwitchNumbers, [&](const auto& number) {
           return one == number.first;
         });
}

bool is_bytes(Text text, bool none) {
  return is_number(text, none ? 0 : 1, kMostBytes) ||
         (none ? parse_bytes_or_zero : parse_bytes)(std::string(text));
}

/// "wsl2:198,240": the MiB that the driver holds at the two ends, even numbers.
bool is_placement(Text text) {
  if (text == "linux" || text == "wsl2" || text == "ascending") return true;
  Scan scan(text);
  if (!scan.take("wsl2:")) return false;
  const auto first = scan.number(4);
  const bool comma = scan.take(",");
  const auto second = scan.number(4);
  return first && comma && second && scan.done() && *first >= 0 && *second >= 0 &&
         *first % 2 == 0 && *second % 2 == 0;
}

bool is_folder(Text text) {
  std::error_code none;
  return std::filesystem::is_directory(text, none);
}

struct Rule {
  const char* name;
  bool (*holds)(Text);
  std::string expected;
};

constexpr std::int64_t kNumber = 999'999'999'999'999'999;

const Rule kRules[] = {
    {"TIDEMARK_CAPACITY", [](Text t) { return is_bytes(t, false); }, "expected bytes, as in 80GiB"},
    {"TIDEMARK_RESERVE", [](Text t) { return is_bytes(t, true); },
     "expected bytes, as in 1GiB, or 0"},
    {"TIDEMARK_PLACEMENT", is_placement, kPlacementExpected},
    {"TIDEMARK_DEVICES", [](Text t) { return is_number(t, 0, kMostDevices); }, kDevicesExpected},
    {"TIDEMARK_SCHEDULE", [](Text t) { return each_is(t, is_schedule); },
     "expected instant, calibrated, lagging or random; of scenarios also all, and device on a GPU"},
    {"TIDEMARK_SEED", [](Text t) { return is_number(t, 0, kNumber); }, "expected a whole number"},
    {"TIDEMARK_MODE", [](Text t) { return among(t, kModeWords); }, kModeExpected},
    {"TIDEMARK_KNOWN_LIMIT", [](Text t) { return is_bytes(t, true); },
     "expected bytes, as in 256KiB"},
    {"TIDEMARK_UNKNOWN", [](Text t) { return among(t, kUnknownWords); }, kUnknownExpected},
    {"TIDEMARK_RACES", is_switch, "expected on or off"},
    {"TIDEMARK_TIMEOUT", [](Text t) { return is_number(t, 1, kLongestTimeout); }, kTimeoutExpected},
    {"TIDEMARK_NCCL_WAITS", [](Text t) { return t == "0" || t == "1"; }, "expected 0 or 1"},
    {"TIDEMARK_NCCL_ALONE", [](Text t) { return t == "0" || t == "1"; }, "expected 0 or 1"},
    {"TIDEMARK_PROFILES", is_folder, "expected a folder"},
};

}  // namespace

void check_variables() {
  for (const Rule& rule : kRules) {
    const char* value = std::getenv(rule.name);
    if (value != nullptr && *value != 0 && !rule.holds(value))
      throw UsageError(fmt::format("{}={}: {}", rule.name, value, rule.expected));
  }
  for (const char* name : {"TIDEMARK_CAPACITY", "TIDEMARK_RESERVE"}) {
    const char* text = std::getenv(name);  // the device knows bytes alone
    if (const auto bytes = parse_bytes_or_zero(text == nullptr ? "" : text))
      setenv(name, std::to_string(*bytes).c_str(), 1);
  }
}

}  // namespace tidemark
