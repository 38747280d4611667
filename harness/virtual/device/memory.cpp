#include "harness/virtual/device/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/host_limit.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/mapping.h"
#include "harness/virtual/device/new_file.h"
#include "harness/virtual/device/pool.h"
#include "harness/virtual/device/setting_words.h"
#include "harness/virtual/device/shared.h"

namespace tidemark::device {
namespace {
constexpr std::size_t kModuleBytes = std::size_t{1}
                                     << 30;  // of the span's end, for modules' variables

// TIDEMARK_USERS: says that this process uses a device, once.
void name_process() {
  static pid_t named = 0;  // a forked process has a name of its own
  if (named == getpid()) return;
  named = getpid();
  const char* folder = std::getenv("TIDEMARK_USERS");
  if (folder == nullptr) return;
  const std::string path = std::string(folder) + "/" + std::to_string(named);
  make_mark(path.c_str(), 0644);
}

/// Bytes of a device's span before its modules; 0 where the host has no room for both.
std::size_t before_modules(const Span& span) {
  return span.bytes > kModuleBytes ? span.bytes - kModuleBytes : 0;
}

cudaError_t allowed_in_capture() {
  auto [e, lock] = locked_at_once();
  return unsafe_in_capture(nullptr);
}
}  // namespace

DeviceMemory::DeviceMemory(int device, int devices, std::string_view placement)
    : span(device_span(device, devices)),
      device_(device),
      placement_(make_placement(placement, {span.begin, before_modules(span)})),
      modules_(span.begin + before_modules(span), before_modules(span) > 0 ? kModuleBytes : 0) {
  if (!placement_)
    throw std::runtime_error("TIDEMARK_PLACEMENT=" + std::string(placement) + ": " +
                             kPlacementExpected);
}

bool DeviceMemory::charge(std::size_t bytes) {
  if (!count(bytes)) return false;
  ledger.add({static_cast<std::int64_t>(bytes)});
  return true;
}

bool DeviceMemory::count(std::size_t bytes) {
  if (bytes > room() || used_ > room() - bytes) {
    ledger.refuse(bytes, room() - std::min(room(), used_));
    return false;
  }
  used_ += bytes;
  name_process();
  // As on a GPU, a process that is forked from now on has no device.
  static const int at_fork =
      pthread_atfork(nullptr, nullptr, [] { break_context(cudaErrorInitializationError); });
  (void)at_fork;
  return true;
}

void DeviceMemory::refund(std::size_t bytes, std::uintptr_t begin) {
  used_ -= bytes;
  ledger.add({-static_cast<std::int64_t>(bytes), begin});
}

std::uintptr_t DeviceMemory::take(std::size_t bytes) {
  if (bytes > room()) return count(bytes), 0;
  const std::size_t rounded = round_up(bytes, kGranule);
  if (!count(rounded)) return 0;
  const std::uintptr_t begin = placement_->take(rounded);
  if (begin == 0 && dictated_) {  // a replay asks for a place that is taken
    used_ -= rounded;
    return 0;
  }
  if (begin == 0 || !commit(begin, rounded))  // the device has room, and the host has none
    host_refuses("address space for memory of the virtual GPU", rounded);
  ledger.add({static_cast<std::int64_t>(rounded), begin});
  allocations_.emplace(begin, Allocation{rounded, bytes});
  return begin;
}

std::size_t DeviceMemory::give(std::uintptr_t begin) {
  auto allocation = allocations_.find(begin);
  if (allocation == allocations_.end()) return 0;
  const auto [bytes, requested, shared] = std::move(allocation->second);
  allocations_.erase(allocation);
  mark_known(reinterpret_cast<void*>(begin), bytes, false);
  if (shared) {
    unshare(*shared);
    unshare_known(begin);
  }
  decommit(begin, bytes);
  placement_->give(begin, bytes);
  refund(bytes, begin);
  return bytes;
}

const SharedHandle* DeviceMemory::share_at(std::uintptr_t begin) {
  Allocation& one = allocations_.at(begin);
  if (one.shared) return one.shared.get();
  SharedHandle handle{.device = device_, .place = place_in_file(begin), .bytes = one.bytes};
  if (memory_file() < 0 || !share_known(begin, one.bytes, memory_file(), handle.place) ||
      !share(handle))
    return nullptr;
  one.shared = std::make_shared<const SharedHandle>(handle);
  return one.shared.get();
}

std::uintptr_t DeviceMemory::take_module(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, kPage);
  const std::uintptr_t begin = modules_.take(rounded, kPage);
  if ((!begin && is_cramped()) || (begin && !commit(begin, rounded)))
    host_refuses("address space for a module's variables", rounded);
  return begin;
}

std::uintptr_t DeviceMemory::place_next(std::size_t offset) {
  if (!dictated_ && used_ > 0) return 0;
  if (offset % kGranule != 0 || offset >= span.bytes - kModuleBytes) return 0;
  if (!dictated_) {
    auto dictated =
        std::make_unique<DictatedPlacement>(Span{span.begin, span.bytes - kModuleBytes});
    dictated_ = dictated.get();
    placement_ = std::move(dictated);
  }
  return dictated_->next = span.begin + offset;
}

std::map<std::uintptr_t, DeviceMemory::Allocation>::const_iterator DeviceMemory::find(
    std::uintptr_t address) const {
  return holding(allocations_, address, &Allocation::bytes);
}

int device_holding(std::uintptr_t begin, std::size_t bytes) {
  const Span mappings = mapping_span();
  if (begin - mappings.begin < mappings.bytes) return mapped_device(begin, bytes);
  const auto& memories = engine().memory;
  for (std::size_t device = 0; device < memories.size(); ++device) {
    const DeviceMemory& memory = *memories[device];
    if (begin - memory.span.begin >= memory.span.bytes) continue;
    if (begin >= memory.span.begin + memory.span.bytes - kModuleBytes)
      return static_cast<int>(device);
    auto allocation = memory.find(begin);
    // Allocations may lie side by side, but a copy never runs from one into the next.
    const bool inside = allocation != memory.all().end() &&
                        begin + bytes <= allocation->first + allocation->second.bytes;
    return inside ? static_cast<int>(device) : -1;
  }
  return -1;
}

int device_of(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  Engine& e = engine();
  if (e.memory.empty()) return -1;
  std::lock_guard lock(e.mutex);
  return device_holding(value, 1);
}

cudaError_t allocate(void** address, std::size_t bytes) {
  if (!address) return cudaErrorInvalidValue;
  *address = nullptr;
  if (engine().devices == 0) return cudaErrorNoDevice;
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t error = allowed_in_capture()) return error;
  const auto pay = [] {
    auto [e, lock] = locked();
    e.now += e.profile.allocate;
    return true;
  };
  is_deferring() ? defer(kNoStream, pay) : static_cast<void>(pay());
  auto [e, lock] = locked_at_once();
  count_activity(e, false);
  const std::uintptr_t begin = e.memory_of(current_device()).take(bytes);
  *address = reinterpret_cast<void*>(begin);
  return begin ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t release(void* address) {
  if (!address) return cudaSuccess;
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto [e, lock] = locked();
  const int device = device_holding(value, 1);
  const Span mappings = mapping_span();
  if (device < 0 || value - mappings.begin < mappings.bytes) return cudaErrorInvalidValue;
  if (const cudaError_t error = unsafe_in_capture(nullptr)) return error;
  synchronise_with(lock, e.mark_all(device));
  --e.synchronisations;  // the program asked for none
  e.now += e.profile.release;
  if (free_from_pool(value)) return cudaSuccess;
  return e.memory_of(device).give(value) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t memory_left(std::size_t* left, std::size_t* total) {
  if (!left || !total) return cudaErrorInvalidValue;
  auto [e, lock] = locked_at_once();
  if (e.devices == 0) return cudaErrorNoDevice;
  const DeviceMemory& memory = e.memory_of(current_device());
  *total = memory.capacity;
  *left = memory.room() - std::min(memory.room(), memory.used_);
  return cudaSuccess;
}

void library_used(Placement::Library what) {
  auto [e, lock] = locked_at_once();
  if (e.devices > 0) e.memory_of(current_device()).placement().used(what);
}

std::size_t memory_used(int device) {
  auto [e, lock] = locked_at_once();
  const DeviceMemory& memory = e.memory_of(device);
  return memory.used_ + memory.capacity - memory.room();
}

void nccl_used(int device) {
  auto [e, lock] = locked_at_once();
  if (device < 0 || static_cast<std::size_t>(device) >= e.memory.size()) return;
  e.memory_of(device).nccl_used = true;
}

cudaError_t allocation_of(const void* address, std::uintptr_t* begin, std::size_t* bytes) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto [e, lock] = locked_at_once();
  if (mapped_range(value, begin, bytes)) return cudaSuccess;
  for (const DeviceMemory* memory : e.memory) {
    auto allocation = memory->find(value);
    if (allocation == memory->all().end()) continue;
    *begin = allocation->first;
    *bytes = allocation->second.requested;
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

void* module_variable(int device, const void* symbol, std::size_t bytes) {
  auto [e, lock] = locked_for_host();
  if (e.devices == 0) return nullptr;
  static auto& known = *new std::map<std::pair<int, const void*>, std::uintptr_t>;
  std::uintptr_t& place = known[{device, symbol}];
  if (!place) place = e.memory_of(device).take_module(std::max<std::size_t>(bytes, 1));
  return reinterpret_cast<void*>(place);
}

}  // namespace tidemark::device
