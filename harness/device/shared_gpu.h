// Test whether NCCL accepts ranks that share a GPU. NVIDIA's refuses them where it detects them.
#pragma once

#include <stdexcept>
#include <string>

#include "harness/ranks/world.h"

namespace tidemark {

/// NCCL does not take the ranks as they sit. The text is rank 0's alone.
struct CollectivesRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Makes a communicator of all ranks, adds a number over it and ends it again. Throws
/// CollectivesRefused on every rank, after at most `timeout` seconds, where that fails or does not
/// end on one of them; a call that never returns is left behind on a thread of its own.
void require_collectives(const World& world, int timeout);

}  // namespace tidemark
