// Steps, phases and kinds of tensors of a snapshot that does not name them, as far as its stacks
// show them: a file of torch.cuda.memory._dump_snapshot() of any program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Gives the snapshot phases and labels, unless it has its own. A run of allocations in one phase
/// is a phase; those of no phase between them do not end it.
/// * backward: below autograd's engine, or on a thread without Python where other allocations have
///   Python frames (the engine's own threads);
/// * optimizer: below torch.optim, or a function `step` of another optimizer's file;
/// * forward: below a module's __call__, or in code that torch.compile has written.
/// A step ends with the optimizer. Where none is seen, or one that allocates its state alone
/// (fused), each backward that a forward follows ends one (Snapshot::steps_by_backward). The kinds
/// follow from the phase of the allocation, and from how long the block lives:
/// * optimizer state: allocated by an optimizer, and outlives its step; else its temporaries;
/// * gradients: allocated in a backward, and outlive it, or are freed by zero_grad; or are as one
///   that did (stack and size);
/// * activations: allocated in a forward, or in a forward that a backward runs again; or between
///   forward and backward, and freed in the backward;
/// * parameters: made while a module is built, moved or initialised;
/// * sharding buffers: as in records (site.h); cuBLAS workspaces where C++ frames show them;
/// * inputs: allocated outside all that, there when a forward begins, and freed later.
void tell_from_stacks(Snapshot& snapshot);

/// What cannot be known of a snapshot, a sentence each; said once, before all else.
std::vector<std::string> limits_of(const Snapshot& snapshot, std::size_t device);

}  // namespace tidemark
