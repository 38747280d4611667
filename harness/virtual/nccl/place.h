// Place of a process among the nodes of the virtual cluster: its rank in the job. The cost model
// takes `ranks_per_node` consecutive places for a node (cost.h), on whatever hosts the ranks run.
#pragma once

#include <vector>

namespace tidemark::nccl {

/// The rank of this process as its launcher says (torchrun, mpirun, srun); -1 where none says it.
int place_in_job();

/// The places of a communicator's ranks, from what each of them says (place_in_job) and the number
/// of its process. Ranks count as their own places where the launcher does not tell all processes
/// apart: torch.multiprocessing.spawn says nothing, and what a process starts has its variables.
std::vector<int> places_of(std::vector<int> places, const std::vector<int>& processes);

}  // namespace tidemark::nccl
