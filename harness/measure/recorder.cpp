#include "harness/measure/recorder.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "harness/device/layer.h"
#include "harness/device/platform.h"
#include "harness/measure/scenario_record.h"
#include "harness/memory/process_record.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/step.h"
#include "harness/record/gzip.h"

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// Limits of a step in a report. Entries beyond them are left out and counted.
constexpr std::size_t kLargest = 10, kMostSpans = 4000, kMostSamples = 1500;

}  // namespace

CategoryScope::CategoryScope(MemoryKind kind, const std::string& unit)
    : before_(current_category()), unit_before_(current_unit()) {
  set_current_category(kind);
  if (!unit.empty()) set_current_unit(unit);
}
CategoryScope::~CategoryScope() {
  set_current_category(before_);
  set_current_unit(unit_before_);
}

UnitScope::UnitScope(const std::string& unit) : scope_(current_category(), unit) {}

struct Recorder::State {
  struct StepTimer {
    c10::cuda::CUDAEvent begin{cudaEventDefault}, end{cudaEventDefault};
  };
  Mode mode;
  int steps;
  bool closely, every_event;
  c10::DeviceIndex device;
  ScenarioRecord blocks;
  c10::CachingDeviceAllocator::DeviceStats before;
  std::int64_t stretch = 0;  // of the phase that is open; 0: none is
  std::string phase;         // its name
  bool last = false;
  std::vector<StepTimer> timers;
  std::vector<std::pair<int, at::Tensor>> losses;  // pinned
  std::vector<Shard> gradients;                    // pinned

  State(const Trial& trial, bool look_closely, bool all_events)
      : mode(trial.mode),
        steps(trial.steps),
        closely(look_closely),
        every_event(all_events),
        device(c10::cuda::current_device()),
        blocks(device, all_events),
        before(allocator::getDeviceStats(device)) {
    watch(true);
  }
  ~State() {
    watch(false);
    if (auto* virtual_one = virtual_device()) virtual_one->follow(false);
  }

  std::size_t place() const { return static_cast<std::size_t>(device); }

  // Operators are followed where blocks are made that may be alive at the last step's peak: while
  // the program is built (parameters), in its first step (optimizer state) and in its last.
  void watch(bool on) const { layer::follow(on && (closely || every_event), on_returned); }
};

Recorder::Recorder(const Trial& trial, bool closely, bool every_event)
    : state_(std::make_unique<State>(trial, closely, every_event)) {}
Recorder::~Recorder() = default;

void Recorder::close_phase() {
  if (state_->stretch == 0) return;
  auto& phase = record.steps.back().phases.back();
  const auto [begin, highest, now] = state_->blocks.read(state_->stretch);
  state_->blocks.end(state_->stretch);
  state_->blocks.phase_end(state_->phase);
  state_->stretch = 0;
  phase[Statistic::allocated] = {highest.allocated, now.allocated};
  phase[Statistic::active] = {highest.active, now.active};
  phase[Statistic::reserved] = {highest.reserved, now.reserved};
  phase[Statistic::requested] = {highest.requested, now.requested};
}

void Recorder::begin_step(int index) {
  state_->last = index + 1 == state_->steps;
  record.steps.emplace_back();
  if (auto* gpu = real_gpu(); gpu != nullptr && index == 0) gpu->steps_begin();
  state_->timers.emplace_back().begin.record(c10::cuda::getCurrentCUDAStream());
  record.rest_before = state_->blocks.live_bytes(state_->place());
  state_->blocks.step(index + 1, state_->last);
  state_->watch(index == 0 || state_->last || state_->every_event);
  if (auto* device = virtual_device(); device != nullptr && state_->last && state_->closely)
    device->follow(true);
}

void Recorder::phase(const std::string& name) {
  close_phase();
  record.steps.back().phases.push_back({name, {}});
  state_->stretch = state_->blocks.begin(state_->place());
  state_->phase = name;
  state_->blocks.phase(name);
  if (auto* device = virtual_device()) device->phase(name);
  if (state_->last) record.phase_starts.emplace_back(name, platform().now());
}

void Recorder::moment(const std::string& name) {
  const auto stats = allocator::getDeviceStats(state_->device);
  record.steps.back().moments.push_back(
      {name, stats.allocated_bytes[0].current, stats.requested_bytes[0].current});
}

void Recorder::call(const std::string& op, const std::string& unit) {
  record.steps.back().calls.push_back({op, unit});
}

void Recorder::loss(const at::Tensor& value) {
  at::Tensor slot =
      at::empty({}, value.options().device(at::kCPU).pinned_memory(true).requires_grad(false));
  slot.copy_(value.detach().squeeze(), /*non_blocking=*/true);
  state_->losses.emplace_back(static_cast<int>(record.steps.size()) - 1, slot);
}

void Recorder::gradients(const std::vector<Shard>& shards) {
  if (record.steps.size() != 1 || state_->mode == Mode::shapes) return;
  for (const auto& shard : shards) {
    at::Tensor copy = at::empty(shard.values.sizes(),
                                shard.values.options().device(at::kCPU).pinned_memory(true));
    copy.copy_(shard.values.detach(), /*non_blocking=*/true);
    state_->gradients.push_back({shard.name, shard.offset, copy});
  }
}

void Recorder::collectives(const std::map<std::string, std::int64_t>& calls,
                           const std::map<std::string, std::int64_t>& bytes) {
  Step& step = record.steps.back();
  step.collectives = calls;
  step.collective_bytes = bytes;
  record.counters.collectives = calls;
  for (const Step& before : record.steps) {
    if (&before == &step) break;
    for (const auto& [operation, count] : before.collectives) step.collectives[operation] -= count;
    for (const auto& [operation, count] : before.collective_bytes)
      step.collective_bytes[operation] -= count;
  }
  std::erase_if(step.collectives, [](const auto& one) { return one.second == 0; });
  std::erase_if(step.collective_bytes, [](const auto& one) { return one.second == 0; });
}

void Recorder::end_step() {
  close_phase();
  state_->timers.back().end.record(c10::cuda::getCurrentCUDAStream());
  if (auto* gpu = real_gpu(); gpu != nullptr && state_->last) record.unheld = gpu->steps_end();
  record.rest_after = state_->blocks.live_bytes(state_->place());
  if (state_->last) {
    RecordBytes bytes{state_->blocks.bytes()};
    const Snapshot history = record_snapshot(bytes, "the record of a rank");
    StepMemory step = step_memory(history, state_->place(), kLargest);
    record.categories = std::move(step.categories);
    record.timeline = thinned(step.timeline, kMostSamples);
    if (state_->every_event) record.events = by_steps(history, state_->place());
    if (state_->closely) {
      auto* device = virtual_device();
      if (device != nullptr) device->follow(false);
      record.largest = std::move(step.largest);
      record.memory = packed_bytes(bytes.bytes);
      record.spans = device != nullptr ? device->spans(kMostSpans) : Spans{{"host"}, {}, {}, 0};
    }
  }
  state_->watch(false);
}

void Recorder::finish() {
  auto& counters = record.counters;
  auto stats = allocator::getDeviceStats(state_->device);
  counters.num_alloc_retries = stats.num_alloc_retries - state_->before.num_alloc_retries;
  counters.num_ooms = stats.num_ooms - state_->before.num_ooms;
  counters.num_device_alloc = stats.num_device_alloc - state_->before.num_device_alloc;
  counters.num_device_free = stats.num_device_free - state_->before.num_device_free;
  counters.num_sync_all_streams = stats.num_sync_all_streams - state_->before.num_sync_all_streams;
  if (auto* device = virtual_device()) {
    counters.launches = device->launches();
    counters.synchronisations = device->synchronisations();
  }
  c10::cuda::device_synchronize();
  std::size_t left = 0, whole = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&left, &whole));
  record.outside = static_cast<Bytes>(whole - left) - stats.reserved_bytes[0].current;
  if (auto* gpu = real_gpu()) record.owners = gpu->owners(stats.reserved_bytes[0].current);
  if (!platform().keeps_time()) state_->timers.clear();
  for (auto& timer : state_->timers)
    step_time_ns.push_back(
        static_cast<Ns>(static_cast<double>(timer.begin.elapsed_time(timer.end)) * 1e6 + 0.5));
  for (auto& [index, slot] : state_->losses) {
    LossPoint point{index, std::nullopt};
    if (state_->mode == Mode::math) point.value = slot.to(at::kDouble).item<double>();
    losses.push_back(point);
  }
  first_gradients = std::move(state_->gradients);
  if (auto* device = virtual_device()) record.races = device->races();
}

}  // namespace tidemark
