// Time of the device for a piece of work, without the time that the host takes to enqueue it.
#pragma once

#include <cstdint>
#include <functional>

namespace tidemark::rates {

/// Holds the current device's stream behind a sleep until the host has enqueued everything, and
/// times it with CUDA events: no gap in between is the host's. A caller that holds more streams
/// gives its own `hold`, which is called with the cycles to sleep.
class Held {
 public:
  using Enqueue = std::function<void()>;
  explicit Held(std::function<void(std::int64_t)> hold);
  Held();

  /// ns that the device takes for `train`, from the end of the sleep. Throws std::runtime_error
  /// where the host cannot get ahead of the device.
  double time(const Enqueue& train);
  /// ns of one `operation`: a train of `more` + `less` against one of `less`, so that what events
  /// and the sleep's end take themselves is in neither.
  double each(const Enqueue& operation, int less, int more);

 private:
  std::function<void(std::int64_t)> hold_;
  std::int64_t cycles_ = 1 << 15;
};

}  // namespace tidemark::rates
