// The check of a virtual GPU's settings, by functions of the virtual device
// (harness/virtual/device/control.h), which some programs link and others look up.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

namespace tidemark {

/// The fault of these settings (profile by name or file, bytes; empty: not given), or empty. What
/// is right is set.
template <class SetProfile, class SetCapacity, class Error>
std::string wrong_settings(const std::string& gpu, const std::string& capacity,
                           SetProfile set_profile, SetCapacity set_capacity, Error error) {
  if (!gpu.empty() && set_profile(gpu.c_str()) != 0) return "--gpu " + gpu + ": " + error();
  if (capacity.empty()) return "";
  std::uint64_t bytes = 0;
  const char* end = capacity.data() + capacity.size();
  auto [stop, fault] = std::from_chars(capacity.data(), end, bytes);
  if (fault != std::errc() || stop != end || bytes == 0)
    return "--capacity " + capacity + ": expected a number of bytes, at least 1";
  if (set_capacity(bytes) != 0) return "--capacity " + capacity + ": " + error();
  return "";
}

}  // namespace tidemark
