// Copies that a program makes before its first forward and keeps: no activations.
#pragma once

#include <cstddef>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Copies of weights, say, from operators that autograd notes: what is there on the device before
/// the first forward, and lives on into that of the next step, gets no module.
void tell_copies(Snapshot& snapshot, std::size_t device);

}  // namespace tidemark
