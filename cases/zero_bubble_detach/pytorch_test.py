#!/usr/bin/env python3
"""pytorch_test.py TIDEMARK: the peaks of requested bytes equal those of PyTorch's own pipelining code, on every rank.

Requested, since allocated bytes add remainders that depend on the order in which Python walks a set. pytorch.json holds PyTorch's
figures; `pytorch_test.py TIDEMARK --record` measures the programs that it lacks with pytorch.py, by a python3 that can import
torch 2.11.0. Schedules that do not split the backward have no variants to tell apart: one is compared."""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from peaks import peaks

HERE = Path(__file__).parent
RECORDED = HERE / "pytorch.json"
SCHEDULES = ["gpipe", "1f1b", "interleaved_1f1b", "interleaved_zb", "zbv"]
SPLIT = ["hook_cycle", "hooks_alone", "hooks_detach_outputs_loss", "hooks_detach_last", "drop_grads_hooks"]
SMALL = {"layers": 13, "hidden": 1024, "ffn": 2816, "heads": 16, "kv_heads": 4, "vocabulary": 5003, "sequence": 384,
         "microbatch": 2, "microbatches": 6, "virtual_stages": 3, "checkpointing": 1}
ONE, TWO = {"virtual_stages": 1}, {"virtual_stages": 2}
PROGRAMS = [("interleaved_zb", 4, {"checkpointing": 0}), ("interleaved_zb", 4, {"checkpointing": 2, "microbatches": 4}),
            ("interleaved_zb", 2, SMALL), ("interleaved_zb", 3, SMALL | TWO),
            ("zbv", 4, TWO | {"checkpointing": 0}), ("zbv", 3, SMALL | TWO), ("zbv", 2, SMALL | TWO | {"checkpointing": 2}),
            ("gpipe", 4, ONE | {"checkpointing": 0}), ("gpipe", 3, SMALL | ONE),
            ("1f1b", 4, ONE | {"checkpointing": 0}), ("1f1b", 3, SMALL | ONE), ("1f1b", 6, SMALL | ONE | {"checkpointing": 2}),
            ("interleaved_1f1b", 4, {"checkpointing": 0}), ("interleaved_1f1b", 3, SMALL)]
LEAKING = [("interleaved_zb", 4, {"checkpointing": 0}), ("interleaved_zb", 2, SMALL), ("zbv", 3, SMALL | TWO | {"checkpointing": 2}),
           ("1f1b", 3, SMALL | ONE)]  # the baseline as released, in its third step


def planned():
    for schedule, ranks, parameters in PROGRAMS:
        variants = SPLIT if schedule in ("interleaved_zb", "zbv") else ["drop_grads_hooks"]
        yield {"schedule": schedule, "ranks": ranks, "steps": 2, "parameters": parameters}, variants
    for schedule, ranks, parameters in LEAKING:
        yield {"schedule": schedule, "ranks": ranks, "steps": 3, "parameters": parameters}, ["as_released"]


def released(virtual: Path, runs) -> list:
    """What pytorch.py prints for each of these dictionaries of options, in order."""
    environment = dict(os.environ, LD_PRELOAD=":".join(map(str, sorted(virtual.glob("*.so.*")))),
                       TIDEMARK_SCHEDULE="instant", TIDEMARK_CAPACITY=str(4 << 40))
    lines = "".join(" ".join(f"--{key}={value}" for key, value in run.items()) + "\n" for run in runs)
    done = subprocess.run([sys.executable, HERE / "pytorch.py", "--batch"], env=environment, input=lines, stdout=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(virtual: Path) -> None:
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))
    for row, variants in planned():
        if any(row == {key: old[key] for key in row} for old in rows):
            continue
        places = [(variant, rank) for variant in variants for rank in range(row["ranks"])]
        shared = {key: row[key] for key in ("schedule", "ranks", "steps")} | row["parameters"]
        runs = [{**shared, "rank": rank, "variant": variant} for variant, rank in places]
        found = dict(zip(places, released(virtual, runs)))
        rows.append(row | {"peaks": {v: [found[v, rank]["requested"] for rank in range(row["ranks"])] for v in variants}})
        RECORDED.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("tidemark")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.record:
        record(Path(options.tidemark).resolve().parent / "virtual")
    wrong = 0
    compared = {schedule: 0 for schedule in SCHEDULES}
    for row in json.loads(RECORDED.read_text(encoding="utf-8")):
        schedule, parameters = row["schedule"], row["parameters"]
        ours = peaks(options.tidemark, "requested", list(row["peaks"]), row["ranks"], parameters | {"schedule": schedule}, row["steps"])
        for variant, ranks in row["peaks"].items():
            for rank, theirs in enumerate(ranks):
                measured = ours[variant][rank]
                compared[schedule] += 1
                if measured != theirs:
                    wrong += 1
                    print(f"wrong: {schedule}, {row['ranks']} ranks {parameters}: {variant}, rank {rank}: {measured:,} bytes, PyTorch {theirs:,} ({measured - theirs:+,})")
    print(f"{sum(compared.values())} peaks compared ({', '.join(f'{n} of {name}' for name, n in compared.items())}), {wrong} wrong")
    return 1 if wrong or not all(compared.values()) else 0


sys.exit(main())
