// Handles that a library gives to programs.
#pragma once

#include <mutex>
#include <unordered_set>
#include <utility>

#include "harness/virtual/device/immortal.h"

namespace tidemark::device {

/// The live objects of one kind. A library looks up a caller's pointer before it reads through it,
/// so a null, an invented or a destroyed handle is an error of the library and never a crash.
template <class T>
class Handles {
 public:
  T* make(T value = {}) {
    auto* const one = new T(std::move(value));
    const std::lock_guard lock(mutex_);
    live_.insert(one);
    return one;
  }
  bool has(const T* handle) const {
    const std::lock_guard lock(mutex_);
    return live_.contains(handle);
  }
  /// Returns false if there is no such handle.
  bool destroy(const T* handle) {
    {
      const std::lock_guard lock(mutex_);
      if (live_.erase(handle) == 0) return false;
    }
    delete handle;
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<const T*> live_;
};

template <class T>
Handles<T>& handles() {
  return immortal<Handles<T>>();
}

}  // namespace tidemark::device
