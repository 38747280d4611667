"""nanotron's tensor-parallel layers in the blocks of this scenario: L Llama blocks in bf16 (RMSNorm, causal attention by torch, RMSNorm, nanotron's MLP), tensor- and
sequence-parallel, Adam, four steps; the forward passes of all microbatches, then their backward passes.
`program.py OPTIONS [+ OPTIONS ...]`: sizes as the scenario's parameters (`--layers=32 ...`); --eager-glu, else the GLU is one function that keeps its
input, as a compiler makes it; --asynchronous; --no-recompute keeps what a column linear has gathered (tp_recompute_allgather false); --accumulation=N
does all that N times before Adam, each time in phases of its own."""
import argparse
import importlib.abc
import importlib.machinery
import os
import sys
import types
from pathlib import Path

import torch
import torch._dynamo  # all that a program would import
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from upstream import Phases, programs  # noqa: E402

STEPS = 4
# What nanotron's modules import and this program does not use: configuration files, kernels, engines of pipelines.
UNUSED = ("nanotron.config", "nanotron.parallel.pipeline_parallel.engine", "nanotron.parallel.pipeline_parallel.utils", "flash_attn", "tqdm")


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that answer every attribute with an empty class."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith(UNUSED) else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Unused())
from nanotron.models.llama import MLP, GLUActivation  # noqa: E402
from nanotron.parallel.tensor_parallel.nn import TensorParallelColumnLinear, TensorParallelLinearMode, TensorParallelRowLinear  # noqa: E402


class FusedGLU(torch.autograd.Function):
    """A kernel forward and one backward: nothing is made but the results."""

    @staticmethod
    def forward(ctx, merged):
        ctx.save_for_backward(merged)
        gate, up = merged.chunk(2, -1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx, gradient):
        (merged,) = ctx.saved_tensors
        return torch.empty_like(merged)


class Block(nn.Module):
    def __init__(self, a, group):
        super().__init__()
        self.head, self.hidden, ranks = a.hidden // a.heads, a.hidden, group.size()
        self.parts = [n // ranks * self.head for n in (a.heads, a.kv_heads, a.kv_heads)]
        chunks = tuple(ranks * part for part in self.parts)
        options = {"pg": group, "mode": TensorParallelLinearMode.REDUCE_SCATTER, "bias": False, "async_communication": a.asynchronous}
        gathers = {"tp_recompute_allgather": False} if a.no_recompute else {}  # the released version has no such option
        self.first_norm = nn.Parameter(torch.empty(a.hidden))
        self.qkv = TensorParallelColumnLinear(a.hidden, sum(chunks), contiguous_chunks=chunks, **options, **gathers)
        self.out = TensorParallelRowLinear(chunks[0], a.hidden, **options)
        self.second_norm = nn.Parameter(torch.empty(a.hidden))
        config = types.SimpleNamespace(hidden_size=a.hidden, intermediate_size=a.ffn, hidden_act="silu")
        parallel = types.SimpleNamespace(tp_mode=options["mode"], tp_linear_async_communication=a.asynchronous, tp_recompute_allgather=not a.no_recompute)
        self.mlp = MLP(config, parallel, group)
        if a.eager_glu:
            self.mlp.split_silu_mul = GLUActivation("silu")
        else:
            del self.mlp.split_silu_mul
            self.mlp.split_silu_mul = FusedGLU.apply

    def attention(self, merged):
        rows, batch, _ = merged.shape
        q, k, v = (part.view(rows, batch, -1, self.head).permute(1, 2, 0, 3) for part in merged.split(self.parts, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return y.permute(2, 0, 1, 3).reshape(rows, batch, -1)

    def forward(self, x):
        x = x + self.out(self.attention(self.qkv(F.rms_norm(x, (self.hidden,), self.first_norm, 1e-5))))
        return x + self.mlp(F.rms_norm(x, (self.hidden,), self.second_norm, 1e-5))["hidden_states"]


def train(words, store):
    parser = argparse.ArgumentParser()
    for name in ("layers", "hidden", "ffn", "heads", "kv_heads", "sequence", "microbatch", "in_flight"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--accumulation", type=int, default=1)
    for flag in ("eager-glu", "asynchronous", "no-recompute"):
        parser.add_argument(f"--{flag}", action="store_true")
    a = parser.parse_args(words)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", store=dist.FileStore(store, size), rank=rank, world_size=size)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        blocks = nn.Sequential(*(Block(a, dist.group.WORLD) for _ in range(a.layers)))
        total = torch.empty(1, dtype=torch.float)
    optimizer = torch.optim.Adam(blocks.parameters(), foreach=True)  # nanotron's class of parameters is no reason to go through them one by one
    scale = 1 / (a.in_flight * a.sequence * a.microbatch * a.hidden)

    def forward():
        x = torch.empty(a.sequence // size, a.microbatch, a.hidden, device="cuda", requires_grad=True)
        y = blocks(x)
        with torch.no_grad():
            flat = y.view(-1)
            total.add_(torch.dot(flat, flat), alpha=scale)
        return x, y

    def backward(x, y):
        with torch.no_grad():
            gradient = y * (2 * scale)
        y.backward(gradient)

    for _ in range(STEPS):
        phases = Phases(torch)
        total.zero_()
        for number in range(a.accumulation):
            suffix = f"/{number}" if a.accumulation > 1 else ""
            in_flight = [forward() for _ in range(a.in_flight)]
            phases.end("forward" + suffix)
            while in_flight:
                backward(*in_flight.pop(0))
            if number + 1 == a.accumulation:
                for block in blocks:
                    dist.all_reduce(block.first_norm.grad)
                    dist.all_reduce(block.second_norm.grad)
                dist.all_reduce(total)
            phases.end("backward" + suffix)
        optimizer.step()
        phases.end("optimizer")
        optimizer.zero_grad()
        phases.end("zero_grad")
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return {"phases": phases.peaks}


programs(train)
