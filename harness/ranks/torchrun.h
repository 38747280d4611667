// Support of torchrun, which starts processes without MPI between them. The first process starts
// the ranks through mpirun; the others wait for it, and end with its exit code.
#pragma once

#include <functional>

namespace tidemark {

/// The number of processes that torchrun (or any launcher that sets RANK, WORLD_SIZE, LOCAL_RANK,
/// MASTER_ADDR and MASTER_PORT) has started; 0 where it has not. Throws UsageError where they are
/// not all on this machine, or where srun has started several without PMIx: they cannot find each
/// other.
int torchrun_size();

/// In each of them: the first calls `run` once the others are there, and all return its exit code.
/// Throws UsageError on the first where the others do not come within `patience` seconds,
/// std::runtime_error on the others where the first does not.
int with_torchrun(const std::function<int()>& run, int patience);

}  // namespace tidemark
