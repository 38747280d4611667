// The two deterministic schedules of a real GPU. instant: the host synchronises around every
// operator and never runs ahead. lagging: a sleep on the device, which all its streams wait for,
// lets the host run ahead as far as it can.
#pragma once

#include <ATen/record_function.h>
#include <c10/cuda/CUDAEvent.h>

#include <string>

#include "harness/record/record.h"

namespace tidemark {

/// While it lives, the device is idle whenever an operator begins and when it returns, in all
/// threads.
class Lockstep {
 public:
  Lockstep();
  ~Lockstep();
  Lockstep(const Lockstep&) = delete;
  Lockstep& operator=(const Lockstep&) = delete;

 private:
  at::CallbackHandle handle_;
};

/// Nothing that is enqueued after it, on any of PyTorch's streams, ends before its sleep does.
class Hold {
 public:
  /// On the current stream, for so many ns of the device's clock; kLongest at most, because a call
  /// that synchronises (cudaFree, say) waits for it.
  explicit Hold(Ns ns);
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  /// Asked when the host has enqueued all that was to be held back: whether the device still
  /// sleeps.
  bool holds() const;

  static constexpr Ns kLongest = 5'000'000'000;

 private:
  c10::cuda::CUDAEvent over_;
};

}  // namespace tidemark
