// Functions that are looked up by name.
#pragma once

namespace tidemark::device {

/// An address, as whatever pointer to a function it is assigned to.
struct Symbol {
  void* address;
  template <typename Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
};

}  // namespace tidemark::device
