// Communicators made from other communicators, and all of a process at once.
#pragma once

#include "harness/virtual/nccl/communicator.h"

namespace tidemark::nccl {

/// One communicator of `count` ranks, each on a device of this process (null: devices 0 to
/// count-1).
void init_all(ncclComm_t* comms, int count, const int* devices);

/// The ranks of one color, ordered by key, then by rank; *result is null for NCCL_SPLIT_NOCOLOR.
/// Joins an open group.
void split(ncclComm_t handle, int color, int key, ncclComm_t* result, const ncclConfig_t* config);

/// All ranks but the excluded ones, which need not (and may not) call. With NCCL_SHRINK_ABORT the
/// parent may be in error; it is aborted first.
void shrink(ncclComm_t handle, const int* excluded, int count, ncclComm_t* result,
            const ncclConfig_t* config, int flags);

}  // namespace tidemark::nccl
