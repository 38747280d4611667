#!/usr/bin/env python3
"""pytorch_test.py TIDEMARK: the peaks of five variants, on every rank, equal those of PyTorch's own pipelining code to the
byte: of requested bytes, since allocated ones add remainders that go with the order in which a set of Python's is walked. pytorch.json holds PyTorch's; `pytorch_test.py TIDEMARK --record` measures them anew with pytorch.py, which wants a
python3 that can import torch 2.11.0."""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from peaks import peaks

HERE = Path(__file__).parent
RECORDED = HERE / "pytorch.json"
VARIANTS = ["hook_cycle", "hooks_alone", "hooks_detach_outputs_loss", "hooks_detach_last", "drop_grads_hooks"]
SMALL = {"layers": 13, "hidden": 1024, "ffn": 2816, "heads": 16, "kv_heads": 4, "vocabulary": 5003, "sequence": 384,
         "microbatch": 2, "microbatches": 6, "virtual_stages": 3, "checkpointing": 1}
PROGRAMS = [(4, {"checkpointing": 0}), (4, {"checkpointing": 2, "microbatches": 4}), (2, SMALL), (3, SMALL | {"virtual_stages": 2})]


def record(virtual: Path) -> None:
    environment = dict(os.environ, LD_PRELOAD=":".join(map(str, sorted(virtual.glob("*.so.*")))),
                       TIDEMARK_SCHEDULE="instant", TIDEMARK_CAPACITY=str(4 << 40))
    rows = []
    for ranks, parameters in PROGRAMS:
        peaks = {}
        for variant in VARIANTS:
            peaks[variant] = []
            for rank in range(ranks):
                options = [f"--{key}={value}" for key, value in {**parameters, "ranks": ranks, "rank": rank, "variant": variant}.items()]
                done = subprocess.run([sys.executable, HERE / "pytorch.py", *options], env=environment, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    sys.exit(f"error: pytorch.py {' '.join(options)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
                peaks[variant].append(json.loads(done.stdout.splitlines()[-1])["requested"])
        rows.append({"ranks": ranks, "parameters": parameters, "peaks": peaks})
    RECORDED.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("tidemark")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.record:
        record(Path(options.tidemark).resolve().parent / "virtual")
    wrong = compared = 0
    for row in json.loads(RECORDED.read_text(encoding="utf-8")):
        ours = peaks(options.tidemark, "requested", VARIANTS, row["ranks"], row["parameters"])
        for variant, ranks in row["peaks"].items():
            for rank, theirs in enumerate(ranks):
                measured = ours[variant][rank]
                compared += 1
                if measured != theirs:
                    wrong += 1
                    print(f"wrong: {row['ranks']} ranks {row['parameters']}: {variant}, rank {rank}: {measured:,} bytes, PyTorch {theirs:,} ({measured - theirs:+,})")
    print(f"{compared} peaks compared, {wrong} wrong")
    return 1 if wrong or not compared else 0


sys.exit(main())
