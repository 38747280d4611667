// Steps, phases and kinds of tensors of a snapshot that does not name them, as far as its stacks
// show them: a file of torch.cuda.memory._dump_snapshot() of any program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Gives the snapshot phases, labels and modules, unless it has its own. A run of allocations in
/// one phase (stack_facts.h) is a phase; those of no phase between them do not end it. Ranges that
/// the program has named (record_function) are phases too; PyTorch names each optimizer's step so,
/// and what allocates in it outside modules and the engine is the optimizer's.
/// A step ends with the optimizer. Where none is seen, or one that allocates its state alone
/// (fused) and whose steps are not named, each backward that a forward follows ends one
/// (Snapshot::steps_by_backward). The kinds follow from the phase of the allocation, and from how
/// long the block lives:
/// * optimizer state: allocated by an optimizer, and outlives its step; else its temporaries;
/// * gradients: allocated in a backward, and outlive it, or are freed by zero_grad; in the last
///   backward of the history, if they stay to its end and are as one that did (stack and size);
/// * activations: allocated in a forward, or in a forward that a backward runs again; or between
///   forward and backward, and freed in the backward;
/// * parameters: made while a module is built, moved or initialised;
/// * sharding buffers: as in records (site.h);
/// * cuBLAS workspaces: where C++ frames show them; else a block of the size that PyTorch gives
/// one,
///   which stays though its phase comes again, and is the only such one of its stack;
/// * inputs: allocated outside all that, there when a forward begins, and freed later; or by the
///   stack of one that was.
void tell_from_stacks(Snapshot& snapshot);

/// The event at which a trace contradicts itself, as where events were not recorded; empty: none.
std::string contradiction_of(const Snapshot& snapshot, std::size_t device);

/// What cannot be known of a snapshot, a sentence each; said once, before all else.
std::vector<std::string> limits_of(const Snapshot& snapshot, std::size_t device);

}  // namespace tidemark
