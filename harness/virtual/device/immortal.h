// State of the process.
#pragma once

namespace tidemark::device {

/// The process's one T, made with the first call and never destroyed: libraries call until the very
/// end of the process.
template <class T>
T& immortal() {
  static T& one = *new T;
  return one;
}

}  // namespace tidemark::device
