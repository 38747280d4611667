// Nodes of autograd's graph, at the moment when a thread makes one. PyTorch says it with a
// RecordFunction around every operator, which costs more than this.
#pragma once

#include <stdint.h>

extern "C" {
/// From now on `listener` is called with the sequence number of each node that a thread makes, on
/// that thread, inside the node's constructor. `of_function` is 1 for the node of a
/// torch.autograd.Function, whose forward comes after it. AccumulateGrad's, which have no number of
/// their own, are left out. Null: no longer.
[[gnu::visibility("default")]] void tidemark_device_on_node(void (*listener)(uint64_t sequence,
                                                                             int of_function));
}
