// Memory that a program may do without, found in the snapshot that `tidemark exec --report` writes.
// The kinds are those of the scenarios.
#pragma once

#include <vector>

#include "harness/memory/parts.h"

namespace tidemark {

/// Five, of one device:
/// * at the highest peak of active memory (after `peak_event` events of the trace): blocks that the
///   program has freed and that are still held because another stream uses them (record_stream);
/// * at that peak: blocks that Python's collector has freed later, and that no operator has read
///   since. Only cycles of references held them when they were freed;
/// * before an optimizer's step, when all backwards have ended, where it is most of all such
///   moments: activations (blocks that a module's forward or an operator in autograd's graph has
///   allocated, or that a backward has and a graph has saved, that are no labelled tensors and not
///   freed, and that no later backward frees); and sharding buffers (gathered parameters and
///   gradient buckets of FSDP, DDP, DeepSpeed). Without an optimizer, or if it steps in a backward,
///   when a backward has ended, less what is freed before the next allocation. What the record
///   follows the uses of and an operator reads again later was needed: it does not count. If there
///   are more than two such moments, what is still there at the end counts only at those that two
///   others follow: a step that would read it may not have come;
/// * when a backward begins: gathered inputs of tensor-parallel layers (gathered_waste).
/// Bytes as requested. `labels` are labels_of the device. Without a backward
/// the last three are not known.
std::vector<Waste> wastes_of(const Snapshot& snapshot, std::size_t device, const LabelOf& labels,
                             std::size_t peak_event);

/// Keeps the parts if they are more than those of an earlier moment; `active`: in all, at this one.
void keep_most(Waste& waste, const std::vector<Part>& parts, std::int64_t active);

/// The last of them: gathered inputs of tensor-parallel layers that autograd keeps from forward to
/// backward.
/// Gathered memory of one device, at the begin of the backward where it is largest: outputs of
/// all-gathers, and their copies by PyTorch's own gathers along another dimension than the first,
/// that a backward frees later. A layer that keeps its shard and gathers again in the backward
/// saves all of them but the shards, so a block counts with its bytes as requested, less those of
/// its shard where the shard is not alive then as well. Sharding buffers (FSDP, DDP, DeepSpeed) do
/// not count. Unknown where no backward has run.
Waste gathered_waste(const Snapshot& snapshot, std::size_t device, const LabelOf& labels);

}  // namespace tidemark
