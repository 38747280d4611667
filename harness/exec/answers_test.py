"""A program of testing/answers has one peak and one sequence of allocator events under each schedule,
beside busy processes (TIDEMARK_TEST_LOAD: 2) and without, in mode known and in mode math. TIDEMARK_TEST_RUNS: runs of each of these four kinds. Without it, known
runs once with the load and math once without, and of parallel.py a few parts. Prints how many answers each schedule gave, and the lines that differ."""
import contextlib
import os
import re
import subprocess
import sys

import pytest
from testing.said import HERE, MIB, Said, drawn

RUNS = int(os.environ.get("TIDEMARK_TEST_RUNS", "0"))
LOAD = int(os.environ.get("TIDEMARK_TEST_LOAD", "2"))
FEW = ["replicas", "bf16 hook", "sharded optimizer", "reductions dropped"]
KINDS = [(mode, load) for mode in ("known", "math") for load in (True, False)] * RUNS or [("known", True), ("math", False)]


@contextlib.contextmanager
def busy(processes):
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def same(program, launch, **environment):
    """`launch`: from the path of the program, the words behind `tidemark exec` and its flags."""
    wrong = []
    for schedule in ("instant", "lagging", "calibrated"):
        answers = []
        for mode, load in KINDS:
            with busy(LOAD if load else 0):
                result = Said("--mode", mode, "--schedule", schedule, *launch(HERE / "answers" / program), **environment).ends(0)
            answers.append(frozenset(line for line in result.out.splitlines() if line.startswith("rank ")))
            result.check(answers[-1], "an answer")
        print(f"{program} {schedule}: {len(set(answers))} in {len(answers)} runs", flush=True)
        wrong += [f"  {schedule}, {answers.count(answer)} runs: {line}" for answer in sorted(set(answers), key=sorted)
                  for line in sorted(answer - frozenset.intersection(*answers))]
    if wrong:
        pytest.fail("one answer under each schedule\n" + "\n".join(wrong))


def ranks(program):
    return ["--ranks", 2, "--", sys.executable, program]


def torchrun(program):
    return ["--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", 1, program]


def test_parallel():
    same("parallel.py", lambda program: ranks(program) + (FEW if RUNS == 0 else []))


# night: long steps in each mode; exec_cycles holds one answer by day
def test_long_steps():
    """Steps with pauses of more than the 100 ms of a watchdog have the peaks of instant, where it lets go of every work; short steps have higher ones."""
    parts = ["replicas", "bucket views", "sharded optimizer"]

    def peaks(schedule, kind):
        result = Said("--schedule", schedule, *ranks(HERE / "answers" / "parallel.py"), *[part + kind for part in parts]).ends(0)
        peak_lines = re.findall(r"^(rank \d+ [^,:]+).*: peak ([\d,]+) bytes", result.out, re.M)
        return {part: int(peak.replace(",", "")) for part, peak in peak_lines}, result
    (instant, _), (calibrated, result), (short, _) = peaks("instant", ", long steps"), peaks("calibrated", ", long steps"), peaks("calibrated", "")
    result.check(len(instant) == 2 * len(parts) and calibrated == instant, f"the peaks of instant: {instant}")
    result.check(all(short[part] > calibrated[part] for part in instant), f"lower than of short steps: {short}")


# holds: harness/exec/README.md, One answer
@pytest.mark.parametrize("flags", drawn([[], ["--report"]], 2))
def test_cycles(flags, tmp_path):
    """Python's collector runs at the same objects however long the host takes: tidemark's part in the process makes none on a clock of its own."""
    runs = [Said(*(flags and [*flags, tmp_path / str(seconds)]), "--", sys.executable, HERE / "answers" / "cycles.py", seconds).ends(0) for seconds in (0, 2.4)]
    for result in runs:
        result.check(result.out == runs[0].out and int(result.out.split()[0]) > 8 * MIB, f"the output of the first run, with cycles that wait: {runs[0].out}")


def test_loader():
    same("loader.py", ranks)


def test_compiled():
    same("compiled.py", ranks)


def test_one_device():
    same("one_device.py", ranks)


def test_restart():
    # PyTorch 2.11 keeps the store of the first attempt otherwise, with its NCCL id.
    same("restart.py", torchrun, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
