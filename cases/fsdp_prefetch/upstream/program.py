"""Released FSDP2 with the model and the loop of the report that this scenario is about: layers of two matrices in units of their own, under a root that
holds two norms; Adam; four steps without a synchronisation between them.
`program.py LAYOUT [--stays] [--hidden N] [--layers N] [+ ...]`: `explicit_async` prefetches explicitly and gathers asynchronously, `explicit` gathers
synchronously, `implicit` leaves the prefetch to FSDP2; --stays: parameters stay gathered from forward to backward."""
import argparse
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from upstream import programs, train_steps  # noqa: E402

BATCH, STEPS = 16, 4


class Block(nn.Sequential):
    def __init__(self, hidden):
        super().__init__(nn.Linear(hidden, hidden, bias=False), nn.GELU(), nn.Linear(hidden, hidden, bias=False))


class Model(nn.Module):
    def __init__(self, layers, hidden):
        super().__init__()
        self.pre_norm = nn.LayerNorm(hidden, bias=False)
        self.mlps = nn.ModuleList([Block(hidden) for _ in range(layers)])
        self.post_norm = nn.LayerNorm(hidden, bias=False)

    def forward(self, x):
        x = self.pre_norm(x)
        for mlp in self.mlps:
            x = x + mlp(x)
        x = self.post_norm(x)
        return x


def sharded(a):
    with torch.device("meta"):
        model = Model(a.layers, a.hidden)
    mesh = dist.device_mesh.init_device_mesh("cuda", (dist.get_world_size(),))
    for mlp in model.mlps:
        fully_shard(mlp, mesh=mesh, reshard_after_forward=not a.stays)
    if a.layout != "implicit":
        for one, next_one in zip(model.mlps, model.mlps[1:]):
            one.set_modules_to_forward_prefetch([next_one])
            next_one.set_modules_to_backward_prefetch([one])
    fully_shard(model, mesh=mesh, reshard_after_forward=not a.stays)
    if a.layout == "explicit_async":
        model._set_unshard_async_op(True)
    return model.to_empty(device="cuda")


def train(words, store):
    parser = argparse.ArgumentParser()
    parser.add_argument("layout", choices=["explicit_async", "explicit", "implicit"])
    parser.add_argument("--stays", action="store_true")
    parser.add_argument("--hidden", type=int, default=10240)
    parser.add_argument("--layers", type=int, default=4)
    a = parser.parse_args(words)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", store=dist.FileStore(store, size), rank=rank, world_size=size)
    model = sharded(a)
    optimizer = torch.optim.Adam(model.parameters())
    dist.barrier()
    torch.cuda.synchronize()
    phases = train_steps(torch, model, optimizer, lambda: torch.randn((BATCH // dist.get_world_size(), a.hidden), device="cuda"), STEPS)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return {"phases": phases}


programs(train)
