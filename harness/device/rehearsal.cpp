// The code that runs on a GPU, run where there is none: CudaPlatform on the virtual device's
// libraries at their calibrated clock. What it measures is the virtual device's, and its name says
// so.
#include "harness/device/platform_cuda.h"

namespace tidemark {
namespace {

class RehearsalPlatform final : public CudaPlatform {
 public:
  explicit RehearsalPlatform(std::unique_ptr<Platform> below) : below_(std::move(below)) {
    below_->virtual_device()->set_race_detection(false);
  }
  std::string profile() const override {
    return "rehearsal on the virtual device " + below_->profile();
  }
  /// Each rank has a virtual device, but they are to share it as ranks share the only GPU.
  std::string identity() const override { return profile(); }
  void begin(const std::string& schedule, Mode mode, std::uint64_t seed) override {
    below_->begin("calibrated", mode, seed);  // a clock; and in math the numbers
    CudaPlatform::begin(schedule, mode, seed);
  }
  Ns now() const override { return below_->now(); }
  std::string check_settings(const std::string& gpu, const std::string& capacity) const override {
    return below_->check_settings(gpu, capacity);
  }

 private:
  std::unique_ptr<Platform> below_;
};

}  // namespace

std::unique_ptr<Platform> rehearsal_platform(std::unique_ptr<Platform> below) {
  return std::make_unique<RehearsalPlatform>(std::move(below));
}

}  // namespace tidemark
