// Choice of the GPU that a rank works on, and the ranks that share it.
#pragma once

#include <string>
#include <vector>

#include "harness/ranks/world.h"

namespace tidemark {

/// Chooses the current device: the local rank modulo the GPUs that the process sees. All ranks call
/// it together, before they call NCCL. Ranks that share a GPU get an equal part of nine tenths of
/// its memory each, and (except with staged collectives) their own NCCL_HOSTID unless one is set,
/// because NCCL refuses two ranks of one host on one GPU. Returns a note for the user, the same on
/// all ranks: which ranks share a GPU and what was done about it; empty if each rank has its own.
/// Throws std::runtime_error if no GPU is seen, or if a GPU accepts one process only.
std::string assign_gpu(const World& world);

/// The ranks that share, from every rank's GPU by name; an empty name is not shared.
std::vector<std::vector<int>> sharing(const std::vector<std::string>& gpus);

}  // namespace tidemark
