#!/usr/bin/env python3
"""torchrun_test.py TIDEMARK: started as torchrun and srun start processes: one run of all ranks, one exit code, one line for a
mistake, and nobody left waiting."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from checks import check, in_scratch

TIDEMARK = Path(sys.argv[1]).resolve()
RUN = ("run", "fsdp_prefetch/stash", "--size", "smoke", "--mode", "shapes", "--schedule", "instant", "--races", "off", "--details", "none")
LAUNCHERS = ("OMPI_COMM", "PMI", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "TIDEMARK_")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}

def gang(work: Path, size: int, *words: str, start=None, **extra: str) -> list[subprocess.Popen]:
    """As torchrun on one machine: size processes, of which those in `start` are started."""
    port = str(20000 + os.getpid() % 20000)
    return [subprocess.Popen([TIDEMARK, *words], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**CLEAN, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                                  "MASTER_PORT": port, **extra}) for rank in (start or range(size))]


def ended(processes: list[subprocess.Popen], limit: float = 100) -> tuple[list[int], str]:
    said = [p.communicate(timeout=limit)[1] for p in processes]
    return [p.returncode for p in processes], "".join(said)


def test(work: Path) -> None:
    codes, said = ended(gang(work, 3, *RUN, "--out", "out"))
    check(codes == [0, 0, 0], f"three processes: {codes} {said}")
    report = json.loads((work / "out" / "report.json").read_text()) if codes == [0, 0, 0] else {"trials": [{"ranks": 0}]}
    check(report["trials"][0]["ranks"] == 3, f"are three ranks of one run: {report['trials'][0]['ranks']}")
    check(len(list(work.glob("*"))) <= 4, f"and leave one folder: {list(work.glob('*'))}")

    codes, said = ended(gang(work, 2, "run", "fsdp_prefetch/stash", "--size", "smoke", "--schedule", "instant", "--capacity", "1000", "--out", "small"))
    check(codes == [codes[0]] * 2 and codes[0] not in (0, 77), f"all end as the run does: {codes}")
    for words, code, says in (("run nosuch*", 4, "nothing matches"), ("run --ranks 3", 2, "torchrun started only 2")):
        codes, said = ended(gang(work, 2, *words.split()))
        check(codes == [code] * 2 and said.count("\n") == 1 and says in said, f"{words}: {codes} {said}")

    begin = time.monotonic()
    codes, said = ended(gang(work, 2, *RUN, "--timeout", "2", "--out", "alone", start=[0]))
    check(codes == [2] and "only 1 connected" in said and "mpirun -n 2" in said and said.count("\n") == 1, f"without the second: {codes} {said}")
    codes, said = ended(gang(work, 2, *RUN, "--timeout", "2", "--out", "alone", start=[1]))
    check(codes == [3] and "has not arrived" in said and said.count("\n") == 1, f"without the first: {codes} {said}")
    check(time.monotonic() - begin < 40, "nobody waits for ever")
    begin = time.monotonic()
    processes = gang(work, 2, *RUN, "--steps", "20000", "--out", "killed")
    while not (work / "killed").exists() and processes[0].poll() is None and time.monotonic() - begin < 60:
        time.sleep(0.1)
    time.sleep(1)
    check([p.poll() for p in processes] == [None, None], "it runs until it is ended")
    processes[0].send_signal(signal.SIGTERM)
    codes, said = ended(processes, 60)
    check(codes == [130, 130], f"ended by its launcher: {codes} {said}")

    for extra, says in (({"RANK": "1", "LOCAL_RANK": "0"}, "on several machines"), ({"LOCAL_WORLD_SIZE": "1"}, "on several machines"),
                        ({"RANK": "5"}, "not a rank of a world"), ({"SLURM_STEP_NUM_TASKS": "2"}, "srun --mpi=pmix"), ({"PMI_SIZE": "2"}, "cannot connect")):
        codes, said = ended(gang(work, 2, *RUN, "--out", "never", start=[0], **extra))
        check(codes == [2] and says in said and said.count("\n") == 1, f"{extra}: {codes} {said}")
    check(not (work / "never").exists(), "a mistake leaves no folder")


if __name__ == "__main__":
    in_scratch(test, "torchrun holds")
