// Values of the settings that are flags of several commands, variables and keys of a project's
// file, and of those that the virtual device reads itself: words, bounds, and what a refusal says
// of them. Each stands here alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "harness/memory/format/format.h"

namespace tidemark {

/// Of `tidemark exec`; those of scenarios are among them.
inline constexpr std::array kModeWords{"known", "math", "shapes"};
/// Of the virtual device. A GPU has "device", and a scenario runs under "all" of its device's.
inline constexpr std::array kScheduleWords{"instant", "calibrated", "lagging", "random"};
inline constexpr std::array kOtherSchedules{"device", "all"};
inline constexpr std::array kSwitchWords{"on", "off"};
/// What a switch also is in a variable.
inline constexpr std::array<std::pair<const char*, const char*>, 2> kSwitchNumbers{
    {{"1", "on"}, {"0", "off"}}};
inline constexpr std::array kUnknownWords{"refuse", "nan"};
inline constexpr int kLongestTimeout = 86'400;  // seconds
/// Of TIDEMARK_CAPACITY, TIDEMARK_RESERVE and TIDEMARK_KNOWN_LIMIT.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
inline constexpr auto kMostDevices = static_cast<std::int64_t>(recorder::kDevices);

inline constexpr const char* kModeExpected = "expected math, known or shapes";
inline constexpr const char* kUnknownExpected = "expected refuse or nan";
inline constexpr const char* kPlacementExpected =
    "expected linux, wsl2, wsl2:FIRST,SECOND (even MiB) or ascending";
inline const std::string kDevicesExpected =
    "expected a number from 0 to " + std::to_string(kMostDevices);
inline const std::string kTimeoutExpected =
    "expected seconds, from 1 to " + std::to_string(kLongestTimeout);

}  // namespace tidemark
