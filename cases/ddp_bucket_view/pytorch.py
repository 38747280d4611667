#!/usr/bin/env python3
"""pytorch.py TIDEMARK SITE: the peaks of `separate` and `rebuilt_view` equal those of PyTorch's own DistributedDataParallel without and
with gradient_as_bucket_view, in every phase and statistic of the last step. SITE: where torch 2.11.0 can be imported from.

One rank in mode math, since DDP exchanges the sizes of its buckets as numbers; no amount depends on the ranks. DDP waits for the
future of an all-reduce, not for its work, so the work keeps the first bucket until c10d's watchdog has seen its end and a later
collective lets go of it (ProcessGroupNCCL.hpp, shelvesToUnstash_). Hence the sleep."""
import ctypes
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "reports"))
from reading import read  # noqa: E402

STEPS = 4
STATISTICS = ("allocated", "active", "reserved", "requested")
RELEASED = 25 << 20  # DDP's default. With any other size the first bucket has no 1 MiB of its own.
PROGRAMS = [{"layers": 3, "hidden": 48, "rows": 4, "bucket_bytes": 16384}, {"layers": 5, "hidden": 777, "rows": 16, "bucket_bytes": 1 << 20},
            {"layers": 40, "hidden": 520, "rows": 16, "bucket_bytes": RELEASED}, {"layers": 9, "hidden": 1024, "rows": 128, "bucket_bytes": RELEASED}]
VARIANTS = ("separate", "rebuilt_view")


def train(program, variant):
    """Prints the peaks by phase."""
    layer = ctypes.CDLL("libtidemark_numbers.so", mode=ctypes.RTLD_GLOBAL)
    assert layer.tidemark_numbers_install(b"math") == 0
    import torch
    from torch import distributed, nn

    class Block(nn.Sequential):
        def forward(self, x):
            return x + super().forward(x)

    hidden, bucket = program["hidden"], program["bucket_bytes"]
    linear = lambda: nn.Linear(hidden, hidden, bias=False)
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    with torch.device("cuda", 0):
        blocks = [Block(linear(), nn.GELU(), linear()) for _ in range(program["layers"])]
        model = nn.Sequential(nn.LayerNorm(hidden, bias=False), *blocks, nn.LayerNorm(hidden, bias=False))
    model = nn.parallel.DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=variant == "rebuilt_view",
                                                bucket_cap_mb=None if bucket == RELEASED else bucket / (1 << 20))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        peaks = {}

        def end(phase):
            stats = torch.cuda.memory_stats()
            peaks[phase] = {name: stats[f"{name}_bytes.all.peak"] for name in STATISTICS}
            torch.cuda.reset_peak_memory_stats()

        optimizer.zero_grad()
        torch.cuda.reset_peak_memory_stats()
        x = torch.zeros(program["rows"], hidden, device="cuda")
        y = model(x)
        loss = y.mean()
        end("forward")
        loss.backward()
        end("backward")
        optimizer.step()
        end("optimizer")
        torch.cuda.synchronize()
        time.sleep(1 if step == 0 else 0)
    print(json.dumps(peaks), flush=True)
    os._exit(0)  # the process group would wait for its own end


def released():
    try:
        import torch._dynamo  # all that a program would import
    except (ImportError, OSError) as error:
        print(f"skipped: Python {sys.version.split()[0]} cannot import torch: {error}", file=sys.stderr)
        sys.exit(77)
    print(f"torch {torch.__version__}", file=sys.stderr)
    for program, variant in itertools.product(PROGRAMS, VARIANTS):
        child = os.fork()  # before the device has been touched
        if child == 0:
            train(program, variant)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"error: DistributedDataParallel as {variant} failed with {program}, see above")


def ours(tidemark, program, folder):
    command = [tidemark, "run", "ddp_bucket_view/separate/smoke", "ddp_bucket_view/rebuilt_view/smoke", "--ranks", "1", "--mode", "shapes", "--schedule", "instant", "--steps", str(STEPS),
               "--out", f"{folder}/run", *(word for name, value in program.items() for word in ("--set", f"{name}={value}"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
    (trial,) = read(Path(folder, "run"))["trials"]
    return {variant["name"]: {phase["name"]: {name: phase[name]["peak"] for name in STATISTICS} for phase in variant["ranks"][0]["phases"]}
            for variant in trial["variants"]}


def main():
    if sys.argv[1:] == ["--released"]:
        return released()
    tidemark, site = Path(sys.argv[1]).resolve(), sys.argv[2]
    virtual = tidemark.parent / "virtual"
    environment = {**os.environ, "PYTHONPATH": site, "TIDEMARK_SCHEDULE": "instant", "TIDEMARK_MODE": "math", "LD_LIBRARY_PATH": str(virtual),
                   "LD_PRELOAD": ":".join(sorted(map(str, virtual.glob("*.so.*"))))}
    done = subprocess.run([sys.executable, __file__, "--released"], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return done.returncode
    lines = iter(done.stdout.splitlines())
    wrong = compared = 0
    for program in PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            found = ours(tidemark, program, folder)
        for variant in VARIANTS:
            for phase, theirs in json.loads(next(lines)).items():
                compared += 1
                if found[variant][phase] != theirs:
                    print(f"error: {variant} with {program}, {phase}: {found[variant][phase]}, DistributedDataParallel: {theirs}")
                    wrong += 1
    print(f"{wrong} of {compared} phases differ from DistributedDataParallel")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
