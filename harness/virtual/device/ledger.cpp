#include "harness/virtual/device/ledger.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/memory.h"

namespace tidemark::device {
namespace {

std::atomic<std::uint64_t> changes_of_all{0};  // of all devices

}  // namespace

void Ledger::add(Change change) {
  if (changes_.size() == kMost) {
    const auto half = changes_.begin() + kMost / 2;
    std::int64_t sum = 0, highest = 0;
    for (auto one = changes_.begin(); one != half; ++one)
      highest = std::max(highest, sum += one->bytes);
    changes_.erase(changes_.begin() + 2, half);
    changes_[0] = {highest}, changes_[1] = {sum - highest};
  }
  changes_.push_back(change);
  ++changes_of_all;
}

void Ledger::refuse(std::size_t wanted, std::size_t left) {
  refused_ = {wanted, left};
  ++changes_of_all;
}

std::vector<Ledger::Change> Ledger::take(tidemark_refused* refused) {
  *refused = std::exchange(refused_, {});
  return std::exchange(changes_, {});
}

}  // namespace tidemark::device

using namespace tidemark::device;

uint64_t tidemark_device_memory_total(int device) {
  auto [e, lock] = locked_at_once();
  return device < 0 || device >= e.devices ? 0 : e.memory_of(device).capacity;
}

uint64_t tidemark_device_memory_changes(void) {
  return changes_of_all.load(std::memory_order_relaxed);
}

void tidemark_device_read_memory(int device, void (*change)(void*, int64_t, uint64_t), void* data,
                                 tidemark_refused* refused) {
  std::vector<Ledger::Change> all;
  *refused = {};
  {
    auto [e, lock] = locked_at_once();
    if (device < 0 || device >= e.devices) return;
    all = e.memory_of(device).ledger.take(refused);
  }
  for (const auto& [bytes, address] : all) change(data, bytes, address);
}
