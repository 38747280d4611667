// Choice of the GPU that a rank works on, and the ranks that share it.
#pragma once

#include <string>
#include <vector>

#include "harness/ranks/world.h"

namespace tidemark {

/// Of all ranks at once: the local rank modulo the GPUs that are seen. Makes it the current device.
/// Ranks that share one get an equal part of nine tenths of its memory each, and (but for staged
/// collectives) a NCCL_HOSTID of their own unless one is set: NCCL refuses two ranks of one host on
/// one GPU. Returns a note for the user, the same on all ranks: which ranks share a GPU
/// and what was done for it; empty where each has its own. To be called before NCCL is. Throws
/// std::runtime_error where no GPU is seen, or where it takes one process alone.
std::string take_seat(const World& world);

/// The ranks that share, from every rank's GPU by name; an empty name is not shared.
std::vector<std::vector<int>> sharing(const std::vector<std::string>& gpus);

}  // namespace tidemark
