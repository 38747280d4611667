// Names of autograd's nodes for the allocator's history: the autograd engine's threads have no
// Python frames, so PyTorch's snapshots say nothing of what they allocate.
#pragma once

namespace tidemark::numbers {

/// Set by tidemark_numbers_name_backward.
inline bool names_backward = false;

/// At the begin of an operator: where a node of autograd runs on this thread, the allocations that
/// follow get the user metadata "autograd:NODE:SEQUENCE", with the sequence number that the node
/// got in the forward. Metadata that the program has set stays. Nothing before torch 2.10, whose
/// allocator has no metadata.
void name_backward();

}  // namespace tidemark::numbers
