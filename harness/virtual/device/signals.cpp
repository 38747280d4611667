#include "harness/virtual/device/signals.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "harness/virtual/device/address_space.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/mapping.h"
#include "harness/virtual/device/shared.h"

namespace tidemark::device {

Signal::Signal(std::uintptr_t word) : word_(reinterpret_cast<std::uint32_t*>(word)) {
  const FilePlace place = [&] {
    auto [e, lock] = locked_at_once();
    return place_of_mapped(word);
  }();
  const std::uint64_t at = time_of_signal(place.bytes_before);
  const std::uint64_t page = at / kPage * kPage;
  void* const mapped = place.file < 0 ? MAP_FAILED
                                      : mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED,
                                             place.file, static_cast<off_t>(page));
  if (mapped == MAP_FAILED) return;
  page_ = mapped;
  time_ = reinterpret_cast<std::atomic<Ns>*>(static_cast<char*>(page_) + (at - page));
}

Signal::Signal(Signal&& other) noexcept
    : word_(other.word_), page_(std::exchange(other.page_, nullptr)), time_(other.time_) {}

Signal::~Signal() {
  if (page_) munmap(page_, kPage);
}

// The one who waits for `from` is alone in it, and so is the only writer of the time until then.
bool Signal::change(std::uint32_t from, std::uint32_t to, Ns& now) {
  const std::atomic_ref word(*word_);
  if (word.load(std::memory_order_acquire) != from) return false;
  if (time_) {
    now = std::max(now, time_->load(std::memory_order_relaxed));
    time_->store(now, std::memory_order_relaxed);
  }
  return word.compare_exchange_strong(from, to, std::memory_order_acq_rel);
}

}  // namespace tidemark::device
