// The ranges that a program has named in PyTorch's memory snapshot
// (torch.profiler.record_function), among them its optimizers' steps.
#pragma once

#include <vector>

#include "harness/memory/snapshot.h"
#include "harness/memory/tree.h"

namespace tidemark {

/// Reads `external_annotations`: pairs of a begin and an end of one name on one device, the
/// innermost first. A begin without an end lasts to the end of the trace; an end without a begin
/// is left out. Empty if `list` is no list.
std::vector<NamedRange> annotations_of(const Tree& tree, Tree::Id list);

/// True for "Optimizer.step#AdamW.step", the range of an optimizer's step.
bool is_optimizer_step(const NamedRange& annotation);
/// True for a range that PyTorch itself names.
bool is_pytorchs(const NamedRange& annotation);

}  // namespace tidemark
