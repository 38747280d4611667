#include "harness/device/platform_cuda.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "harness/device/nvml.h"

namespace tidemark {
namespace {

// The host is slower with the device asleep: the first launches of a process, memory that has to
// come from the driver, other ranks on its cores.
constexpr Ns kMargin = 3, kLeast = 50'000'000;

}  // namespace

// Without a host's name: no two GPUs have one UUID.
std::string CudaPlatform::identity() const {
  std::string text;
  for (const char byte : device_properties().uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::optional<OutsideOwners> CudaPlatform::owners(Bytes reserved) const {
  return told_apart(gpu_use(device_properties().uuid.bytes), getpid(), reserved);
}

void CudaPlatform::begin(const std::string& schedule, Mode, std::uint64_t) {
  const auto offered = schedules();
  if (std::ranges::find(offered, schedule) == offered.end())
    throw std::invalid_argument("a real GPU keeps its own time: schedule '" + schedule +
                                "' needs --device virtual");
  schedule_ = schedule;
  hold_.reset();
  lockstep_.reset();
  if (schedule == "instant") lockstep_.emplace();
  streams_.clear();
  start_ = std::chrono::steady_clock::now();
}

bool CudaPlatform::learn_host_time(const std::string& schedule) {
  learning_ = schedule == "lagging";
  return learning_;
}

// Once, before the first step, and for all of them: under lagging what a step leaves behind is
// still not done in the next one.
void CudaPlatform::steps_begin() {
  if (schedule_ == "lagging" && !learning_) {
    hold_time_ = std::min(kMargin * host_time_ + kLeast, Hold::kLongest);
    hold_.emplace(hold_time_);
  }
  steps_began_ = now();
}

std::string CudaPlatform::steps_end() {
  const Ns took = now() - steps_began_;
  if (learning_) host_time_ = took;
  learning_ = false;
  if (!hold_) return "";
  const bool holds = hold_->holds();
  hold_.reset();
  if (holds) return "";
  return fmt::format(
      "the device was held back for {} ms, but the host took {} ms to enqueue the steps: the peaks "
      "are no bound for lagging (try fewer --steps)",
      hold_time_ / 1'000'000, took / 1'000'000);
}

Ns CudaPlatform::now() const {
  return (std::chrono::steady_clock::now() - start_) / std::chrono::nanoseconds(1);
}

std::string CudaPlatform::stream_name(void* stream) {
  if (stream == nullptr) return "default stream";
  const auto number = streams_.try_emplace(stream, streams_.size() + 1).first->second;
  return "stream " + std::to_string(number);
}

std::string CudaPlatform::check_settings(const std::string& gpu,
                                         const std::string& capacity) const {
  return gpu.empty() && capacity.empty()
             ? ""
             : "--gpu and --capacity are for the virtual device: this runs on a real GPU";
}

std::unique_ptr<Platform> cuda_platform() { return std::make_unique<CudaPlatform>(); }

}  // namespace tidemark
