// Gathered inputs of tensor-parallel layers that autograd keeps from forward to backward.
#pragma once

#include "reports/snapshot/parts.h"

namespace tidemark {

/// Of one device, when a backward begins where it is most of all such moments: outputs of
/// all-gathers, and their copies by PyTorch's own gathers along another dimension than the first,
/// that a backward frees later. A layer that keeps its shard and gathers again in the backward
/// saves all of them but the shards, so a block counts with its bytes as requested, less those of
/// its shard where the shard is not alive then as well. Sharding buffers (FSDP, DDP, DeepSpeed) do
/// not count. Unknown where no backward has run.
Waste gathered_waste(const Snapshot& snapshot, std::size_t device, const LabelOf& labels);

}  // namespace tidemark
