"""A program of ci/wheels and of the tests: what people use first of PyTorch, on the virtual platform. `wheel.py GROUP [math|known] [--after CHECK]`, with
the groups alone, attention, compiled; and with RANK and WORLD_SIZE ranks, absent (one rank of two, without its partner) and training. In mode math
results are compared with the CPU's; in mode known most numbers are not known, and the memory is the same. Prints two lines a check: "begin NAME", and "check NAME OUTCOME":
passed with the highest bytes allocated and reserved, or absent (this release or this environment does not have it), refused or failed, with the reason.
`wheel.py training math spawn|fork PORT` starts two ranks itself. `wheel.py program NAME` trains a network of PROGRAMS for three steps, and
prints what it holds at its end, by kind: "holds KIND BYTES"."""
import gc
import os
import sys
import traceback

import torch
import torch.distributed as dist
from wheel_checks import attention, compiled, layers, memory, ranks, steps  # noqa: F401  # their checks are registered
from wheel_checks.programs import program
from wheel_checks.registry import CHECKS, Absent, Mode


def run(function):
    """(outcome, the exit code that it leads to)"""
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        function()
    except Absent as error:
        return f"absent: {error}", 0
    except Exception as error:
        if "no kernel image is available" in str(error):
            return "absent: this wheel has no code for this GPU", 0
        last = traceback.extract_tb(error.__traceback__)[-1]
        refused = "not supported" in str(error) or "no numbers" in str(error)
        return f"{'refused' if refused else 'failed'}: {type(error).__name__} in {os.path.basename(last.filename)}:{last.lineno}: {str(error) or last.line}".split("\n")[0], 7 if refused else 1
    return f"passed {torch.cuda.max_memory_allocated()} {torch.cuda.max_memory_reserved()}", 0


def main(group, after="", rank=-1, size=-1):
    Mode.group = group
    names = [function.__name__ for function in CHECKS[group]]
    alone = group in ("alone", "attention", "compiled")
    if not alone:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
        dist.init_process_group("nccl", rank=rank, world_size=size)
    codes = [0]
    for function in CHECKS[group][names.index(after) + 1 if after else 0:]:
        sys.stdout.write(f"begin {function.__name__}\n")
        sys.stdout.flush()
        outcome, code = run(function)
        codes.append(code)
        sys.stdout.write(f"check {function.__name__} {outcome}\n")
        sys.stdout.flush()
    if not alone:
        dist.destroy_process_group()
    return 1 if 1 in codes else max(codes)


def spawned(rank, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    sys.exit(main("training", "", rank, size))


if __name__ == "__main__":
    group, *how = sys.argv[1:]
    if group == "program":
        sys.exit(program(how[0]))
    if how[:1] in (["math"], ["known"]):
        Mode.numbers = how.pop(0) == "math"
    if how[:1] in (["spawn"], ["fork"]):
        torch.multiprocessing.start_processes(spawned, (2, how[1]), 2, start_method=how[0])
    else:
        sys.exit(main(group, how[1] if how[:1] == ["--after"] else ""))
