// Values of the settings that are flags of several commands, variables and keys of a project's
// file: each stands here alone.
#pragma once

#include <array>
#include <string>
#include <utility>

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
inline constexpr int kLongestTimeout = 86'400;  // seconds

}  // namespace tidemark
