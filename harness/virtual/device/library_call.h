// Calls of a library that would compute on a GPU: a matrix product, a convolution.
#pragma once

#include "harness/virtual/device/known.h"
#include "harness/virtual/device/refusal.h"

namespace tidemark::device {

/// True if this call computes nothing where its result would be read; the caller returns its
/// library's "not supported", which is all that the library's callers look at.
inline bool refused(const char* name) {
  const bool admitted = admits_kernel(name);
  if (!admitted) take_refusal();
  if (follows_known()) forget_all(name);
  return !admitted;
}

}  // namespace tidemark::device
