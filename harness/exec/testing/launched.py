"""A program of the test, under any launcher: takes the process group's variables from those of mpirun, mpiexec or srun, as such programs do. Rank R
allocates R + 1 MiB and 4 KiB. Prints the number of GPUs that it sees."""
import os
import sys

SAID = {"RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"), "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"),
        "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")}
for name, others in SAID.items():
    os.environ[name] = next(os.environ[other] for other in others if other in os.environ)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
kept = torch.empty((dist.get_rank() + 1) << 20, dtype=torch.uint8, device="cuda")
ones = torch.ones(1024, device="cuda")
dist.all_reduce(ones)
assert ones.tolist() == [dist.get_world_size()] * 1024
print(f"sees {torch.cuda.device_count()}\n", end="", flush=True)
dist.destroy_process_group()
