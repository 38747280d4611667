#include <dlfcn.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "harness/device/platforms.h"
#include "harness/device/settings.h"
#include "harness/device/spans.h"
#include "harness/virtual/device/control.h"
#include "harness/virtual/device/names.h"
#include "harness/virtual/operators/layer.h"
#include "harness/virtual/race/control.h"

namespace tidemark {
namespace {

using device::text_of;

/// A function of the virtual device's C interface, or null on a real one.
template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

#define TIDEMARK_CONTROL(function) \
  decltype(::function)* function = find<decltype(::function)>(#function)

class VirtualPlatform final : public Platform, public VirtualDevice {
 public:
  std::string kind() const override { return "virtual"; }
  VirtualDevice* virtual_device() override { return this; }
  std::vector<std::string> schedules() const override {
    return {"instant", "calibrated", "lagging"};
  }
  std::string profile() const override {
    return nlohmann::json::parse(text_of(tidemark_device_describe)).at("profile");
  }
  Bytes capacity() const override {
    const auto device = nlohmann::json::parse(text_of(tidemark_device_describe));
    return device.at("capacity_bytes").get<Bytes>() - device.at("for_nccl_bytes").get<Bytes>();
  }

  void begin(const std::string& schedule, Mode mode, std::uint64_t seed) override {
    if (tidemark_device_set_schedule(schedule.c_str()) != 0)
      throw std::invalid_argument("the virtual device has no schedule '" + schedule + "'");
    const bool timed = schedule == "calibrated" || schedule == "random";
    tidemark_device_set_seed(seed);
    tidemark_device_set_data(mode == Mode::math ? 1 : 0);
    tidemark_races_detect(races_ ? 1 : 0);
    install_numbers(mode == Mode::math ? "math" : timed ? "cost" : "shapes", races_);
    tidemark_device_reset_clock();
  }
  Ns now() const override { return tidemark_device_now(); }
  std::int64_t launches() const override {
    return static_cast<std::int64_t>(tidemark_device_launches());
  }
  std::int64_t synchronisations() const override {
    return static_cast<std::int64_t>(tidemark_device_synchronisations());
  }
  void set_launch_cost(Ns ns) override { tidemark_device_set_launch_cost(ns); }
  bool set_capacity(Bytes bytes) override {
    return tidemark_device_set_capacity(static_cast<std::uint64_t>(bytes)) == 0;
  }
  Bytes profile_capacity() override {
    const Bytes now = capacity();
    set_capacity(0);
    const Bytes own = capacity();
    set_capacity(now == own ? 0 : now);
    return own;
  }
  std::uintptr_t place_next(Bytes offset) override {
    return offset < 0 ? 0 : tidemark_device_place_next(static_cast<std::uint64_t>(offset));
  }
  void hold_records(void* stream) override { tidemark_device_hold_records(stream); }
  void release_records(void* stream, std::uint64_t count) override {
    tidemark_device_release_records(stream, count);
  }
  void set_race_detection(bool on) override { races_ = on; }
  bool detects_races() const override { return races_; }
  void phase(const std::string& name) override {
    if (races_) tidemark_races_phase(name.c_str());
  }
  void follow(bool on) override {
    tidemark_device_trace(on ? 1 : 0);
    if (on) known_.clear();
  }
  Spans spans(std::size_t most) override {
    std::vector<tidemark_span> all(tidemark_device_spans(nullptr, 0));
    tidemark_device_spans(all.data(), all.size());
    std::set<Operation> racing;
    for (const auto& each : read_races())
      for (const auto& last : each.at("last")) racing.insert(operation(last));
    known_.clear();
    return spans_of(all, most, racing, known_,
                    [&](std::uint32_t lane) { return text_of(tidemark_device_lane_name, lane); });
  }
  std::string stream_name(void* stream) override {
    return text_of(tidemark_device_stream_name, stream);
  }
  std::vector<Race> races() const override {
    std::vector<Race> all_races;
    for (const auto& each : read_races()) {
      const auto access = [&](const char* which, std::size_t side) {
        const auto span = known_.find(operation(each.at("last").at(side)));
        return Access{each.at(which).at("op"), each.at(which).at("stream"),
                      span == known_.end() ? -1 : span->second};
      };
      all_races.push_back({access("first", 0), access("second", 1), each.at("bytes"),
                           each.at("explanation"), each.at("kind")});
    }
    return all_races;
  }
  std::string check_settings(const std::string& gpu, const std::string& capacity) const override {
    return wrong_settings(gpu, capacity, tidemark_device_set_profile, tidemark_device_set_capacity,
                          tidemark_device_error);
  }

 private:
  static Operation operation(const nlohmann::json& place) {
    return {place.at(0).get<std::uint32_t>(), place.at(1).get<std::uint64_t>()};
  }
  nlohmann::json read_races() const {
    if (!races_) return nlohmann::json::array();
    return nlohmann::json::parse(text_of(tidemark_races_read));
  }

  // The operator layer is a library of its own, beside the virtual ones; it is loaded when first
  // wanted.
  static void install_numbers(const char* mode, bool races) {
    static void* library = dlopen("libtidemark_operators.so", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
      throw std::runtime_error(std::string("the operator layer cannot be loaded: ") + dlerror());
    static auto* install = find<decltype(::tidemark_layer_install)>("tidemark_layer_install");
    static auto* error = find<decltype(::tidemark_layer_error)>("tidemark_layer_error");
    if (install == nullptr || error == nullptr)
      throw std::runtime_error("libtidemark_operators.so is not the operator layer");
    static auto* current = find<decltype(::tidemark_layer_mode)>("tidemark_layer_mode");
    // Entering a mode takes as long as a small variant: only where something changes.
    static bool watched = false;
    if (current != nullptr && std::string(current()) == mode && watched == races) return;
    watched = races;
    if (install(mode) != 0) throw std::runtime_error(std::string("the operator layer: ") + error());
  }

  TIDEMARK_CONTROL(tidemark_device_set_schedule);
  TIDEMARK_CONTROL(tidemark_device_set_seed);
  TIDEMARK_CONTROL(tidemark_device_set_profile);
  TIDEMARK_CONTROL(tidemark_device_place_next);
  TIDEMARK_CONTROL(tidemark_device_hold_records);
  TIDEMARK_CONTROL(tidemark_device_release_records);
  TIDEMARK_CONTROL(tidemark_device_set_capacity);
  TIDEMARK_CONTROL(tidemark_device_error);
  TIDEMARK_CONTROL(tidemark_device_describe);
  TIDEMARK_CONTROL(tidemark_device_set_data);
  TIDEMARK_CONTROL(tidemark_device_reset_clock);
  TIDEMARK_CONTROL(tidemark_device_now);
  TIDEMARK_CONTROL(tidemark_device_launches);
  TIDEMARK_CONTROL(tidemark_device_synchronisations);
  TIDEMARK_CONTROL(tidemark_device_set_launch_cost);
  TIDEMARK_CONTROL(tidemark_races_detect);
  TIDEMARK_CONTROL(tidemark_races_phase);
  TIDEMARK_CONTROL(tidemark_races_read);

  TIDEMARK_CONTROL(tidemark_device_trace);
  TIDEMARK_CONTROL(tidemark_device_spans);
  TIDEMARK_CONTROL(tidemark_device_stream_name);
  TIDEMARK_CONTROL(tidemark_device_lane_name);

  bool races_ = true;
  SpanPlaces known_;
};

}  // namespace

std::unique_ptr<Platform> virtual_platform() {
  if (find<decltype(::tidemark_device_now)>("tidemark_device_now") == nullptr) return nullptr;
  return std::make_unique<VirtualPlatform>();
}

}  // namespace tidemark
