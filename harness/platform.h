// What lies below PyTorch: the virtual device or a real one. The virtual device's controls are
// looked up by name; where they are missing this is a real GPU, and what only the virtual one can
// do says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/record.h"

namespace tidemark {

class Platform {
 public:
  virtual ~Platform() = default;
  virtual std::string kind() const = 0;     // "virtual" or "cuda"
  virtual std::string profile() const = 0;  // the profile's or the GPU's name
  virtual Bytes capacity() const = 0;
  /// Sets both for what follows and returns the clock to 0. Throws std::invalid_argument where the
  /// platform cannot.
  /// `seed`: of the schedule random.
  virtual void begin(const std::string& schedule, Mode mode, std::uint64_t seed = 0) = 0;
  virtual Ns now() const = 0;  // host clock
  virtual std::int64_t launches() const = 0;
  virtual std::int64_t synchronisations() const = 0;
  /// Host cost of one launch in ns for what follows; < 0 the profile's. False where it cannot be
  /// set.
  virtual bool set_launch_cost(Ns ns) = 0;
  /// Bytes of the device for what follows (0: the profile's). False where it cannot be set.
  virtual bool set_capacity(Bytes bytes) = 0;
  /// Whether races are looked for in what follows begin(); on at first where the platform can.
  /// False where it cannot be set.
  virtual bool set_race_detection(bool on) = 0;
  virtual bool detects_races() const = 0;
  /// The phase that what follows belongs to, for the reports of races.
  virtual void phase(const std::string& name) = 0;
  /// What occupies the streams, from follow(true) to follow(false).
  virtual void follow(bool on) = 0;
  /// What was followed, `most` spans at most: the shortest operators are left out, never a
  /// collective, a wait or what races() names. Empty on a real GPU.
  virtual Spans spans(std::size_t most) = 0;
  /// Found since begin(); with the places of their operations in what spans() returned last.
  virtual std::vector<Race> races() const = 0;
  /// What to call a cudaStream_t; the same text for the same stream until the next begin().
  virtual std::string stream_name(void* stream) = 0;
  /// What is wrong with these settings (profile by name or file, bytes; empty: not given), or
  /// empty.
  virtual std::string check_settings(const std::string& gpu, const std::string& capacity) const = 0;
};

Platform& platform();

/// The schedules that the platform offers; a real GPU has only its own ("device").
std::vector<std::string> platform_schedules();

}  // namespace tidemark
