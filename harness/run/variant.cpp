#include "harness/run/variant.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>

#include "harness/device/platform.h"
#include "harness/device/workspaces.h"
#include "harness/errors.h"
#include "harness/measure/recorder.h"
#include "harness/measure/scenario_record.h"
#include "harness/ranks/flight_recorder.h"

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// Autograd's device thread holds the last node it has run, and with it what that has saved, for a
// moment after backward has returned.
void await_autograd(c10::DeviceIndex device) {
  for (int i = 0; i < 1000; ++i) {
    if (allocator::getDeviceStats(device).allocated_bytes[0].current == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// PyTorch gives its pool's streams in turn and says nowhere how many there are.
class StreamPool {
 public:
  explicit StreamPool(bool high_priority) : high_priority_(high_priority), last_(next()) {
    const auto first = last_;
    for (auto stream = next(); stream != first; stream = next()) last_ = stream;
    rewind();
  }
  /// The next stream that it gives is its first again.
  void rewind() const {
    while (next() != last_) continue;
  }

 private:
  c10::cuda::CUDAStream next() const {
    return c10::cuda::getStreamFromPool(high_priority_, c10::cuda::current_device());
  }
  const bool high_priority_;
  c10::cuda::CUDAStream last_;
};

// Every program gets the same streams: the allocator polls its events in an order that follows from
// their numbers.
void rewind_streams() {
  static const StreamPool usual(false), high(true);
  usual.rewind();
  high.rewind();
}

ErrorKind kind_of(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr)
    return ErrorKind::out_of_memory;
  return dynamic_cast<const PartnerFailed*>(&error) != nullptr ? ErrorKind::partner
                                                               : ErrorKind::other;
}

// An error of a rank for the others: its kind, its text and its place, a line each.
std::string as_message(ErrorKind kind, const std::string& text, const std::string& place) {
  return fmt::format("{}\n{}\n{}", static_cast<int>(kind), text, place);
}

RankError of_message(int rank, const std::string& message) {
  const auto first = message.find('\n'), second = message.find('\n', first + 1);
  return {rank, static_cast<ErrorKind>(std::stoi(message)),
          message.substr(first + 1, second - first - 1),
          second == std::string::npos ? "" : message.substr(second + 1)};
}

}  // namespace

std::string first_line(const std::exception& error) {
  if (typeid(error) == typeid(std::bad_alloc)) return "the host has no memory left";
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      from_torch != nullptr ? from_torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

void release_device() {
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::device_synchronize();
  at::cuda::clearCublasWorkspaces();
  await_autograd(c10::cuda::current_device());
  allocator::emptyCache();
  at::getHostAllocator(at::kCUDA)->empty_cache();
}

void prepare_device(const Trial& trial) {
  release_device();
  const auto device = c10::cuda::current_device();
  auto stats = allocator::getDeviceStats(device);
  if (stats.allocated_bytes[0].current != 0 || stats.reserved_bytes[0].current != 0)
    throw std::logic_error(
        "the variant before left " + std::to_string(stats.allocated_bytes[0].current) +
        " bytes allocated and " + std::to_string(stats.reserved_bytes[0].current) + " reserved");
  for (auto kind : {at::kCPU, at::kCUDA}) {
    at::Generator generator =
        at::globalContext().defaultGenerator(at::Device(kind, kind == at::kCUDA ? device : -1));
    generator.set_current_seed(trial.seed);
  }
  at::globalContext().setSDPUseCuDNN(false);  // flash on every GPU: its memory is in the formulas
  rewind_streams();
  platform().begin(trial.schedule, trial.mode, trial.seed);
  set_current_category(MemoryKind::activations);
}

VariantRun run_variant(const Scenario& scenario, const Trial& trial, const Variant& variant,
                       World& world, const Recording& recording) {
  prepare_device(trial);
  VariantRun run;
  RankResult& seen = run.seen;
  seen.variant = &variant;
  const std::string where = fmt::format("{}{}/{}/{} {}", recording.purpose, trial.scenario,
                                        trial.size, trial.schedule, variant.name);
  flight::place(where);
  Recorder recorder(trial, recording.details, recording.every_event);
  {
    auto program = scenario.make(trial, variant, world);
    for (int step = 0; step < trial.steps; ++step) {
      flight::place(fmt::format("{}, step {}", where, step));
      recorder.begin_step(step);
      program->step(step, recorder);
      recorder.end_step();
    }
    recorder.finish();
    if (trial.mode == Mode::math)
      for (auto& shard : program->parameters())
        seen.numbers.parameters.push_back({shard.name, shard.offset, shard.values.detach().cpu()});
  }
  seen.record = std::move(recorder.record);
  seen.record.rank = world.rank();
  if (trial.mode == Mode::math) {
    seen.numbers.loss = recorder.losses;
    seen.numbers.gradients = std::move(recorder.first_gradients);
  }
  run.loss = std::move(recorder.losses);
  run.step_time_ns = std::move(recorder.step_time_ns);
  return run;
}

void warm_up(const Scenario& scenario, Trial trial, const Variant& variant, World& world) {
  static std::set<std::string> warm;
  if (scenario.sizes.empty() || !warm.insert(scenario.name + "/" + variant.name).second) return;
  trial.params = scenario.sizes.front().params_on(trial.ranks);
  trial.steps = 2;
  if (!why_unfit(scenario, trial).empty()) return;
  if (scenario.leave_out && !scenario.leave_out(trial, variant).empty()) return;
  run_variant(scenario, trial, variant, world, {.purpose = "the warm-up of "});
}

VariantRun run_recorded(const Scenario& scenario, const Trial& trial, const Variant& variant,
                        World& world, Recording recording) {
  warm_up(scenario, trial, variant, world);
  if (real_gpu() != nullptr && real_gpu()->learn_host_time(trial.schedule)) {
    recording.purpose = "the timing of ";
    run_variant(scenario, trial, variant, world, recording);
    recording.purpose = "";
  }
  return run_variant(scenario, trial, variant, world, recording);
}

std::vector<RankError> attempt(World& world, const std::function<void()>& body,
                               const std::function<std::string()>& about) {
  std::string mine;
  try {
    body();
  } catch (const std::exception& error) {
    std::string text = first_line(error);
    if (text.empty()) text = "an exception without a text";
    const std::string place = about();
    flight::threw(text);
    mine = as_message(kind_of(error), text, place);
  }
  std::vector<RankError> threw, partners;
  const auto readable = [](const std::string& message) {
    return error_text(of_message(0, message));
  };
  for (int rank = world.alone() ? world.rank() : 0;
       const std::string& message : world.exchange(mine, readable)) {
    if (!message.empty()) {
      RankError error = of_message(rank, message);
      (error.kind == ErrorKind::partner ? partners : threw).push_back(std::move(error));
    }
    ++rank;
  }
  std::ranges::move(partners, std::back_inserter(threw));
  return threw;
}

}  // namespace tidemark
