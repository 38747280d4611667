// Times of records. Calls have those of the profiler's clock. Operations have times of the virtual
// device's clock, which is put into the profiler's by one distance for each window of a profile:
// the smallest with which no operation begins before its call. Durations, gaps and overlaps are
// therefore those of the virtual device, and the distance between a call and its operation has no
// meaning.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "harness/virtual/device/activity.h"

namespace tidemark::cupti {

/// The profiler's clock: that of cuptiActivityRegisterTimestampCallback, else nanoseconds since
/// 1970.
std::uint64_t now();
void set_clock(std::uint64_t (*clock)());
/// A profile begins: measures how long a tick of the clock is.
void begin_clock();
/// The host has waited for the whole device up to `end`, and waits on in real time until the
/// profiler's clock is there too: a profiler drops what ends later than its window.
void wait_in_real_time(device::Ns end);

/// From times of the virtual clock to the profiler's, for operations that were taken together.
class DeviceClock {
 public:
  explicit DeviceClock(const std::vector<device::ProfiledOperation>& operations);
  std::uint64_t of(device::Ns time, std::uint32_t window) const;

 private:
  std::uint64_t begin_ = 0;
  double ticks_per_ns_ = 1;
  std::map<std::uint32_t, device::Ns> distances_;
};

}  // namespace tidemark::cupti
