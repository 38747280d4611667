"""Released DistributedDataParallel with the scenario's model, one rank: `program.py --layers=N --hidden=N --rows=N --bucket_bytes=N [--view] [+ ...]`,
--view with gradient_as_bucket_view.

In mode math, since DDP exchanges the sizes of its buckets as numbers; no amount depends on the ranks. DDP waits for the future of an all-reduce, not for
its work, so the work keeps the first bucket until c10d's watchdog has seen its end and a later collective releases it
(ProcessGroupNCCL.hpp, shelvesToUnstash_). Hence the sleep."""
import argparse
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # all that a program would import
from torch import distributed, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from upstream import programs, train_steps  # noqa: E402

STEPS = 4
DEFAULT = 25 << 20  # DDP's. With any other size the first bucket has no 1 MiB of its own.


class Block(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def train(words, _store):
    parser = argparse.ArgumentParser()
    for name in ("layers", "hidden", "rows", "bucket_bytes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--view", action="store_true")
    a = parser.parse_args(words)
    linear = lambda: nn.Linear(a.hidden, a.hidden, bias=False)
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    with torch.device("cuda", 0):
        blocks = [Block(linear(), nn.GELU(), linear()) for _ in range(a.layers)]
        model = nn.Sequential(nn.LayerNorm(a.hidden, bias=False), *blocks, nn.LayerNorm(a.hidden, bias=False))
    model = nn.parallel.DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=a.view,
                                                bucket_cap_mb=None if a.bucket_bytes == DEFAULT else a.bucket_bytes / (1 << 20))
    optimizer = torch.optim.Adam(model.parameters())

    def wait(step):
        torch.cuda.synchronize()
        time.sleep(1 if step == 0 else 0)

    return {"phases": train_steps(torch, model, optimizer, lambda: torch.zeros(a.rows, a.hidden, device="cuda"), STEPS, wait)}


programs(train)
