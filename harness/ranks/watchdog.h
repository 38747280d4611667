// The watchdog of a rank on a real GPU: it ends a rank that makes no progress, because a collective
// whose partner does not come never returns, and a rank whose communication has failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace tidemark {

/// The signs of life that a watchdog looks at.
struct Signs {
  std::function<std::uint64_t()> beats;  // moves as long as the rank gets further
  std::function<std::string()> trouble;  // empty while all is well
};

/// Starts a watchdog, which ends with the thread that is returned. It calls `bite` once, on that
/// thread: as soon as there is trouble, with it, or with an empty text when the beats have been the
/// same for so long.
std::jthread start_watchdog(Signs signs, std::chrono::milliseconds timeout,
                            std::function<void(const std::string& trouble)> bite);

}  // namespace tidemark
