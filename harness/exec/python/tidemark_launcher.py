"""This process among those that a launcher has started (torchrun, mpirun, srun), from the variables that the launcher sets. torchrun's come first:
a batch job or mpirun may have started it."""
import os
import re


def first(*names):
    return next((os.environ[name] for name in names if os.environ.get(name, "").isdigit()), None)


def tasks_of_step():
    """The number of tasks of this srun, on all its machines; a batch script is no step."""
    return int(first("SLURM_STEP_NUM_TASKS") or 1) if os.environ.get("SLURM_STEP_ID") else 1


def rank():
    """None where no launcher says it."""
    value = first("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    if value is None and tasks_of_step() > 1:
        value = first("SLURM_PROCID")
    return None if value is None else int(value)


def local_size():
    """The number of its processes on this machine; None where no launcher says it."""
    value = first("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    if value is not None:
        return int(value)
    counts = []  # of "4(x2),3": four on each of two machines, three on the last
    for count, machines in re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")):
        counts += [int(count)] * int(machines or 1)
    machine = int(first("SLURM_NODEID") or 0)
    return counts[machine] if tasks_of_step() > 1 and machine < len(counts) else None
