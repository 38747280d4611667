#include "harness/virtual/device/control.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/memory.h"

using namespace tidemark::device;

namespace {

int fail(Engine& e, const std::string& why) {
  e.error = why;
  return -1;
}

int set_memory(Engine& e) {
  try {
    e.set_memory();
  } catch (const std::runtime_error& error) {
    return fail(e, error.what());
  }
  return 0;
}

}  // namespace

int tidemark_device_set_schedule(const char* name) {
  auto [e, lock] = locked();
  synchronise_with(lock, e.mark_all(-1));
  if (!e.set_schedule(name ? name : "")) {
    return fail(e, std::string("no schedule '") + (name ? name : "") +
                       "'; there are: instant, calibrated, lagging, random");
  }
  return 0;
}

void tidemark_device_set_seed(uint64_t seed) {
  auto [e, lock] = locked();
  e.seed = seed;
  e.draws = 0;
}

int tidemark_device_set_profile(const char* name) {
  auto [e, lock] = locked();
  for (const DeviceMemory* memory : e.memory) {
    if (memory->used_)
      return fail(e, "the GPU profile can only change while no device memory is allocated");
  }
  try {
    e.profile = load_profile(name ? name : "");
  } catch (const std::runtime_error& error) {
    return fail(e, error.what());
  }
  return set_memory(e);
}

int tidemark_device_set_capacity(uint64_t bytes) {
  auto [e, lock] = locked();
  const std::size_t before = e.capacity_override;
  e.capacity_override = bytes;
  if (set_memory(e) != 0) return -1;
  for (const DeviceMemory* memory : e.memory) {
    if (memory->used_ <= memory->room()) continue;
    const int failed = fail(e, "capacity " + std::to_string(memory->room()) + " is below the " +
                                   std::to_string(memory->used_) + " bytes allocated now");
    e.capacity_override = before;
    e.set_memory();
    return failed;
  }
  return 0;
}

int tidemark_device_set_reserve(uint64_t bytes) {
  auto [e, lock] = locked();
  e.reserve = bytes;
  return set_memory(e);
}

void tidemark_device_nccl_used(int device) { nccl_used(device); }

uint64_t tidemark_device_place_next(uint64_t offset) {
  auto [e, lock] = locked();
  if (e.devices == 0) return 0;
  if (const auto at = e.memory_of(current_device()).place_next(offset)) return at;
  fail(e, "an allocation cannot be placed at " + std::to_string(offset) +
              ": memory is allocated already, or that is not a multiple of 2 MiB in range");
  return 0;
}

void tidemark_device_hold_records(void* stream) {
  auto [e, lock] = locked();
  if (Stream* const s = e.find(static_cast<StreamHandle>(stream))) s->holds_records = true;
}

void tidemark_device_release_records(void* stream, uint64_t count) {
  auto [e, lock] = locked();
  if (Stream* const s = e.find(static_cast<StreamHandle>(stream)))
    s->released = std::max(s->released, count);
}

void tidemark_device_set_data(int on) {
  engine().data = on == 0 ? Data::none : on == 2 ? Data::known : Data::all;
}

void tidemark_device_set_launch_cost(int64_t ns) {
  auto [e, lock] = locked();
  e.launch_override = ns;
}

void tidemark_device_reset_clock(void) {
  auto [e, lock] = locked();
  synchronise_with(lock, e.mark_all(-1));
  e.now = e.watched = 0;
  ++e.epoch;
  e.launches = e.synchronisations = e.unready_polls = e.draws = 0;
  for (Stream& s : e.streams) s.tail = 0, s.launched = 0, s.queue.clear();
  reset_event_times();
  reset_kernel_counts();
  e.trace.clear();
  e.forget_numbers();
}

const char* tidemark_device_error(void) {
  thread_local std::string copy;
  auto [e, lock] = locked();
  copy = e.error;
  return copy.c_str();
}

int64_t tidemark_device_now(void) { return host_now(); }

uint64_t tidemark_device_launches(void) {
  std::lock_guard lock(engine().mutex);
  return engine().launches;
}

uint64_t tidemark_device_synchronisations(void) {
  std::lock_guard lock(engine().mutex);
  return engine().synchronisations;
}
