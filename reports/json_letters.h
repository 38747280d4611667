// The letters of report.json's columns, in the order of their enumerators.
#pragma once

#include <string_view>

namespace tidemark {

inline constexpr std::string_view kUses = "apf";          // active, pending, free
inline constexpr std::string_view kKinds = "olcw";        // operator, collective, copy, wait
inline constexpr std::string_view kActions = "arcsfmuo";  // alloc, free_requested, free_completed,
                                                          // segment_alloc, _free, _map, _unmap, oom

}  // namespace tidemark
