// The device below PyTorch: the virtual device or a real GPU. What only one of them can do is an
// interface of its own, which is absent on the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// Abilities of the virtual device alone.
class VirtualDevice {
 public:
  virtual ~VirtualDevice() = default;
  virtual std::int64_t launches() const = 0;
  virtual std::int64_t synchronisations() const = 0;
  /// Host cost of one launch in ns for what follows; < 0 the profile's.
  virtual void set_launch_cost(Ns ns) = 0;
  /// Bytes of the device for what follows (0: the profile's). False where it cannot be so large.
  virtual bool set_capacity(Bytes bytes) = 0;
  /// Capacity of the profile in bytes, whatever capacity is set.
  virtual Bytes profile_capacity() = 0;
  /// The next allocation of device memory is made so many bytes above the lowest address, as are
  /// all from the first such call on. Returns where; 0 where it cannot be.
  virtual std::uintptr_t place_next(Bytes offset) = 0;
  /// From now on an event that is recorded on this stream (a cudaStream_t) is done when the host
  /// waits for it, or when it is one of the first `count` of release_records.
  virtual void hold_records(void* stream) = 0;
  virtual void release_records(void* stream, std::uint64_t count) = 0;
  /// Turns the detection of races on or off for the operations after begin(); on at first.
  virtual void set_race_detection(bool on) = 0;
  virtual bool detects_races() const = 0;
  /// Begins a phase, by its name in the reports of races.
  virtual void phase(const std::string& name) = 0;
  /// The operations on the streams, from follow(true) to follow(false).
  virtual void follow(bool on) = 0;
  /// The spans that were followed, `most` at most: the shortest operators are left out, never a
  /// collective, a wait or what races() names.
  virtual Spans spans(std::size_t most) = 0;
  /// Found since begin(); with the places of their operations in what spans() returned last.
  virtual std::vector<Race> races() const = 0;
};

/// Needs and facts of a real GPU alone.
class RealGpu {
 public:
  virtual ~RealGpu() = default;
  /// Name of the GPU: one text for two ranks on one GPU.
  virtual std::string identity() const = 0;
  /// The owners of the memory that the allocator has not taken, which has `reserved` bytes.
  virtual std::optional<OutsideOwners> owners(Bytes reserved) const = 0;
  /// True if the steps must first run once, unrecorded, to show how long the host takes for them:
  /// the next ones between steps_begin and steps_end.
  virtual bool learn_host_time(const std::string& schedule) = 0;
  /// On the current stream, before the first step; and when the host has enqueued the last one.
  /// steps_end() returns why the schedule was not kept to, or empty.
  virtual void steps_begin() = 0;
  virtual std::string steps_end() = 0;
};

class Platform {
 public:
  virtual ~Platform() = default;
  virtual std::string kind() const = 0;     // "virtual" or "cuda"
  virtual std::string profile() const = 0;  // the profile's or the GPU's name
  virtual Bytes capacity() const = 0;
  /// Sets schedule and mode for what follows and returns the clock to 0. `seed` is that of the
  /// schedule random. Throws std::invalid_argument where the platform has no such schedule.
  virtual void begin(const std::string& schedule, Mode mode, std::uint64_t seed = 0) = 0;
  /// The schedules that begin() takes; the first is the default.
  virtual std::vector<std::string> schedules() const = 0;
  /// True if CUDA events show how long this program's steps take, and the schedule does not change
  /// that.
  virtual bool keeps_time() const { return true; }
  virtual Ns now() const = 0;  // host clock
  /// The name of a cudaStream_t; the same text for the same stream until the next begin().
  virtual std::string stream_name(void* stream) = 0;
  /// The fault of these settings (profile by name or file, bytes; empty: not given), or
  /// empty.
  virtual std::string check_settings(const std::string& gpu, const std::string& capacity) const = 0;
  /// Null on a real GPU.
  virtual VirtualDevice* virtual_device() { return nullptr; }
  /// Null on the virtual device, except in a rehearsal.
  virtual RealGpu* real_gpu() { return nullptr; }
};

/// The virtual device where the libraries below PyTorch are its own, else a real GPU. For tests:
/// with TIDEMARK_PLATFORM=cuda in the environment a rehearsal, the code of the real GPU run on the
/// virtual device; its profile is named "rehearsal on the virtual device ...".
Platform& platform();

/// platform()'s own.
VirtualDevice* virtual_device();
RealGpu* real_gpu();

/// VirtualDevice's; without effect, and false, on a real GPU.
void set_race_detection(bool on);
bool set_capacity(Bytes bytes);

/// The schedules that the platform offers: "instant", "calibrated", "lagging"; of a real GPU
/// "device" (its own time), "instant" and "lagging" (made so by the host, gpu_schedules.h).
std::vector<std::string> platform_schedules();

}  // namespace tidemark
