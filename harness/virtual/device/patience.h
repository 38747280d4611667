// Longest waits of this process for another one that does not come.
#pragma once

#include <chrono>
#include <cstdlib>

namespace tidemark::device {

/// TIDEMARK_TIMEOUT in seconds; 300 without it.
inline std::chrono::duration<double> patience() {
  const char* const text = std::getenv("TIDEMARK_TIMEOUT");
  const double seconds = text == nullptr ? 0 : std::atof(text);
  return std::chrono::duration<double>(seconds > 0 ? seconds : 300);
}

/// Least patience of a wait that goes on without its partners after a while, or that the program
/// has bounded: ranks compute on a CPU here, and a partner that is slow, or compiles, still comes.
inline constexpr std::chrono::seconds kSlowPartner{15};

/// Patience of a wait on the device: the time-out of the partners comes first, and says more.
inline std::chrono::duration<double> patience_of_device() { return 1.5 * patience(); }

}  // namespace tidemark::device
