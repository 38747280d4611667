// A real GPU as a platform. It keeps its own time (schedule "device"); what the virtual device does
// by rule at the two ends, instant and lagging, the host does here (gpu_schedules.h).
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "harness/device/gpu_schedules.h"
#include "harness/device/platforms.h"

namespace tidemark {

class CudaPlatform : public Platform, public RealGpu {
 public:
  std::string kind() const override { return "cuda"; }
  std::string profile() const override { return device_properties().name; }
  Bytes capacity() const override { return static_cast<Bytes>(device_properties().totalGlobalMem); }
  RealGpu* real_gpu() override { return this; }
  std::string identity() const override;
  std::optional<OutsideOwners> owners(Bytes reserved) const override;
  std::vector<std::string> schedules() const override { return {"device", "instant", "lagging"}; }
  void begin(const std::string& schedule, Mode mode, std::uint64_t seed) override;
  bool keeps_time() const override { return schedule_ == "device"; }
  bool learn_host_time(const std::string& schedule) override;
  void steps_begin() override;
  std::string steps_end() override;
  Ns now() const override;
  std::string stream_name(void* stream) override;
  std::string check_settings(const std::string& gpu, const std::string& capacity) const override;

 private:
  std::string schedule_ = "device";
  std::optional<Lockstep> lockstep_;
  std::optional<Hold> hold_;
  bool learning_ = false;
  Ns steps_began_ = 0, host_time_ = 0, hold_time_ = 0;
  std::map<void*, std::size_t> streams_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tidemark
