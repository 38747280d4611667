// Names of the files of a run's session, which its ranks write (checkpoint.h) and salvage.h reads.
#pragma once

#include <fmt/format.h>

#include <string>

#include "reports/write.h"

namespace tidemark {

inline constexpr const char* kPlan = "plan";
inline constexpr const char* kAt = "at";  // the trial under way, and how many ranks run

inline std::string name_of_trial(std::size_t index) { return fmt::format("trial-{}", index); }

inline std::string name_of_part(std::size_t trial, const std::string& variant, int rank) {
  return fmt::format("part-{}-{}-{}", trial, path_component(variant), rank);
}

inline constexpr const char* kAlive =
    "alive-";  // and a rank, which locks it (flock) while it lives

}  // namespace tidemark
