// What lies below PyTorch: the virtual device or a real one. The virtual device's controls are
// looked up by name; where they are missing this is a real GPU, and what only the virtual one can
// do says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

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
  /// The same text for two ranks on one GPU; empty where each process has a device of its own.
  virtual std::string gpu_identity() const { return ""; }
  /// Whose the memory is that the allocator has not taken, which has `reserved` bytes; none where
  /// each process has a device of its own.
  virtual std::optional<OutsideOwners> owners(Bytes reserved) const {
    static_cast<void>(reserved);
    return std::nullopt;
  }
  /// What begin() takes, the one to take where nobody asks first.
  virtual std::vector<std::string> schedules() const = 0;
  /// Whether events tell how long this program's steps take, and not what the schedule does to
  /// them.
  virtual bool keeps_time() const { return true; }
  /// Whether the steps must run once, unrecorded, for the platform to see how long the host takes
  /// for them; if so, the next ones between steps_begin and steps_end are those.
  virtual bool learn_host_time(const std::string& schedule) {
    static_cast<void>(schedule);
    return false;
  }
  /// On the current stream, before the first step; and when the host has enqueued the last one.
  /// Empty, or why the schedule was not kept to.
  virtual void steps_begin() {}
  virtual std::string steps_end() { return ""; }
  virtual Ns now() const = 0;  // host clock
  virtual std::int64_t launches() const = 0;
  virtual std::int64_t synchronisations() const = 0;
  /// Host cost of one launch in ns for what follows; < 0 the profile's. False where it cannot be
  /// set.
  virtual bool set_launch_cost(Ns ns) = 0;
  /// Bytes of the device for what follows (0: the profile's). False where it cannot be set.
  virtual bool set_capacity(Bytes bytes) = 0;
  /// The next allocation of device memory is made so many bytes above the lowest address, as are
  /// all from the first such call on. False where it cannot be.
  virtual bool place_next(Bytes offset) {
    static_cast<void>(offset);
    return false;
  }
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

/// The virtual device where the libraries below PyTorch are its own, else a real GPU. For tests:
/// with TIDEMARK_PLATFORM=cuda in the environment a rehearsal, the code of the real GPU run on the
/// virtual device; its profile is named "rehearsal on the virtual device ...".
Platform& platform();

/// Of the virtual GPU's profile, whatever capacity is set; 0 of a real one.
Bytes profile_capacity();

/// The schedules that the platform offers: "instant", "calibrated", "lagging"; of a real GPU
/// "device" (its own time), "instant" and "lagging" (made so by the host, pace.h).
std::vector<std::string> platform_schedules();

}  // namespace tidemark
