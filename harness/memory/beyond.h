// What a program that ran out of memory would have gone on to, by its second run with room.
#pragma once

#include <optional>

#include "harness/memory/picture.h"
#include "harness/memory/snapshot.h"

namespace tidemark {

/// The picture of the run with room up to the end of the step in which the other one, `full`, ran
/// out of memory on that device. `refused` of it is the moment at which the block is there that was
/// refused. None where that is not proved: the second run must have made the allocations of the
/// first one in the same order up to there, and then that one.
std::optional<MemoryPicture> beyond(const Snapshot& full, const DeviceSummary& device,
                                    const Snapshot& room, MemoryPicture picture);

}  // namespace tidemark
