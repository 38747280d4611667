// Signals: words of 4 bytes in device memory that ranks share, by which kernels order the ranks. A
// rank puts a signal (0 becomes 1), another one takes it (1 becomes 0). The file behind the memory
// has the time of the latest change of each word (shared.h): a rank that waits for a change
// continues no earlier than it was made.
#pragma once

#include <atomic>
#include <cstdint>

#include "harness/virtual/device/device.h"

namespace tidemark::device {

class Signal {
 public:
  /// `word`: its address, in memory of this process or of another one.
  explicit Signal(std::uintptr_t word);
  Signal(Signal&& other) noexcept;
  Signal& operator=(Signal&&) = delete;
  ~Signal();

  /// One try at time `now`, which becomes that of the change before, if that is later. False: the
  /// word is not 0 (put) or not 1 (take).
  bool put(Ns& now) { return change(0, 1, now); }
  bool take(Ns& now) { return change(1, 0, now); }

 private:
  bool change(std::uint32_t from, std::uint32_t to, Ns& now);

  std::uint32_t* word_;
  void* page_ = nullptr;             // of times
  std::atomic<Ns>* time_ = nullptr;  // null: the system refuses, and there are no times
};

}  // namespace tidemark::device
