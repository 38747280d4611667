"""A step of `tidemark exec --report` costs in the end what it costs in the beginning, in seconds and in memory, and the
process keeps nothing of each step."""
import os
import re
import sys

from testing.said import FOLDER, HERE, MIB, Said

# The noise of CPU seconds is below a third on most machines, but not on one that is busy for a while: ranks that wait for each other cost CPU seconds too. A
# step that looks at all steps before it costs some times as much in every attempt.
RATIO = 1.5
ATTEMPTS = 3
STEPS = int(os.environ.get("TIDEMARK_SOAK_STEPS", "700"))  # more of them in ci/soak
# Bytes of the process's own memory that may be added. The steps that differ are in the file; the process keeps no more than the last 16 MiB of them
# for comparison, and its allocator's slack.
GROWTH = {"sizes": 24 * MIB, "leak": 24 * MIB}
# Bytes that malloc has given out and that may be added: the recorder keeps the places of 2^18 operators of a thread, 4 MiB. An entry of 2 KiB a step that
# stays in some container exceeds this after 500 steps, one of 500 bytes after 10,000.
IN_USE = min(2048 * (STEPS - 200), 5 * MIB)
# Bytes of the record's file, and so of a snapshot: the first 8 MiB of entries, the growth of the others, and what PyTorch's format adds.
SNAPSHOT = 40 * MIB


def ends_as_it_begins(kind, *flags):
    for attempt in range(1, ATTEMPTS + 1):
        result, first, last = keeps_nothing(kind, flags, FOLDER / "_".join(map(str, (kind, *flags, attempt))))
        if last < RATIO * first:
            return
    result.check(False, f"{kind}: the last hundred steps cost {last} CPU seconds, the second hundred {first}, and more in {ATTEMPTS} attempts of {ATTEMPTS}")


def keeps_nothing(kind, flags, report):
    """Runs once and checks the memory. Returns the run, and the CPU seconds of its second hundred steps and of its last."""
    # PyTorch's flight recorder keeps 2,000 collectives.
    result = Said(*flags, "--report", report, "--", sys.executable, HERE / "long.py", kind, TORCH_FR_BUFFER_SIZE="0", TORCH_NCCL_TRACE_BUFFER_SIZE="0").ends(0)
    match = re.search(r"seconds (\S+) (\S+) growth (-?\d+) in use (-?\d+)", result.out)
    result.check(match, "the program says what it took")
    first, last, growth, in_use = float(match[1]), float(match[2]), int(match[3]), int(match[4])
    print(f"{kind} {' '.join(map(str, flags))}: {first:.2f} s, {last:.2f} s in the end, {growth / MIB:.1f} MiB more, {in_use:,} bytes of malloc")
    result.check(growth < GROWTH.get(kind, 4 * MIB), f"{kind}: {growth} bytes more after {STEPS - 200} steps")
    result.check(in_use < IN_USE, f"{kind}: {in_use} bytes more are in use after {STEPS - 200} steps: something has an entry for each step")
    if kind == "leak":
        begins = re.search(r"leaks from (\d+)", result.out)[1]
        result.check(f"a step since step {begins}: " in result.err, f"grows since step {begins}")
    size = max(file.stat().st_size for file in report.glob("*.record"))
    result.check(size < (SNAPSHOT if kind in GROWTH else MIB), f"{kind}: a snapshot has {size} bytes")
    return result, first, last


# night: hundreds of steps, twice; exec_repeats and exec_growth tests hold steps by day
def test_long():
    ends_as_it_begins("plain")
    ends_as_it_begins("plain", "--races", "on")


# night: hundreds of steps of each kind of program; exec_long holds one kind by day
def test_long_kinds():
    for kind in "no optimizer", "checkpoints", "sizes", "leak":
        ends_as_it_begins(kind)
    ends_as_it_begins("collectives", "--ranks", 2)
