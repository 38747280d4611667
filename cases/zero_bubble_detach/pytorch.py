#!/usr/bin/env python3
"""Runs PyTorch's own pipelining code, one rank by itself, with this scenario's model: the source of pytorch.json.

    LD_PRELOAD=$(ls $PWD/build/dev/virtual/*.so.* | tr '\\n' ':') TIDEMARK_SCHEDULE=instant TIDEMARK_CAPACITY=4398046511104 \\
      python3 cases/zero_bubble_detach/pytorch.py --rank 1 --schedule zbv --variant drop_grads_hooks --checkpointing 2

with the torch 2.11.0 wheel; prints one line of JSON: peaks in bytes of the last step, and the requested peak of every step.
The process group is PyTorch's fake one: it sends nothing, and a rank needs no partners. The habits of pytorch_edits.py are
taken out, but for those named by `--keep`; `--as-released` keeps them all, and the outputs of 2.6.0. `--pipelining DIR` runs
the folder torch/distributed/pipelining of another release, with its habits; 2.6.0 and older want `--norm=floats`. `--batch`
reads such options from stdin, a run a line, and prints a line for each, all within one process's start.
"""
import argparse
import gc
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

from pytorch_edits import HABITS, KEEPS_ALL_OUTPUTS, VARIANTS, install

SCHEDULES = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B", "interleaved_1f1b": "ScheduleInterleaved1F1B",
             "interleaved_zb": "ScheduleInterleavedZeroBubble", "zbv": "ScheduleZBVZeroBubble"}


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"ranks": 4, "rank": 1, "steps": 2, "layers": 32, "hidden": 4096, "ffn": 11008, "heads": 32, "kv_heads": 32,
                        "vocabulary": 32000, "sequence": 2048, "microbatch": 1, "microbatches": 8, "virtual_stages": 2,
                        "checkpointing": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--schedule", choices=SCHEDULES, default="interleaved_zb")
    parser.add_argument("--variant", choices=VARIANTS, default="drop_grads_hooks")
    parser.add_argument("--norm", choices=["fused", "floats"], default="fused")
    parser.add_argument("--down-before-up", action="store_true")  # w1, w2, w3 in Llama's own order, which is that of the weight groups
    parser.add_argument("--as-released", action="store_true")
    parser.add_argument("--keep", choices=HABITS, action="append", default=[])
    parser.add_argument("--pipelining", metavar="DIR")
    parser.add_argument("--collect", action="store_true")  # leaves Python's garbage collector on
    return parser.parse_args(words)


def norm(x, weight, a):
    if a.norm == "fused":
        return F.rms_norm(x, (a.hidden,), weight, 1e-5)
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * weight


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        h, kv, f = a.hidden, a.hidden // a.heads * a.kv_heads, a.ffn
        self.a = a
        mlp = ((f, h), (h, f), (f, h)) if a.down_before_up else ((f, h), (f, h), (h, f))
        self.w = nn.ParameterList(nn.Parameter(torch.empty(*shape, device="cuda")) for shape in
                                  ((h,), (h, h), (kv, h), (kv, h), (h, h), (h,), *mlp))

    def forward(self, x):
        a, (n1, wq, wk, wv, wo, n2, w1, w3, w2) = self.a, self.w
        if a.down_before_up:
            w3, w2 = w2, w3
        n = norm(x, n1, a)
        q, k, v = (F.linear(n, w).view(a.microbatch, a.sequence, -1, a.hidden // a.heads).transpose(1, 2) for w in (wq, wk, wv))
        del n
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=a.kv_heads != a.heads)
        del q, k, v
        out = out.transpose(1, 2).reshape(-1, a.hidden)
        y = x + F.linear(out, wo)
        del out
        m = norm(y, n2, a)
        return y + F.linear(F.silu(F.linear(m, w1)) * F.linear(m, w3), w2)


class Part(nn.Module):
    """A stage's part of the model; its parameters in the order of the layers."""

    def __init__(self, index, stages, a):
        super().__init__()
        self.a, self.first, self.last = a, index == 0, index == stages - 1
        empty = lambda *shape: nn.Parameter(torch.empty(*shape, device="cuda"))
        self.embedding = nn.ParameterList([empty(a.vocabulary, a.hidden)] if self.first else [])
        layers = range(index * a.layers // stages, (index + 1) * a.layers // stages)
        self.again = [a.checkpointing == 2 or a.checkpointing == 1 and layer % 2 == 1 for layer in layers]
        self.blocks = nn.ModuleList(Block(a) for _ in layers)
        self.head = nn.ParameterList([empty(a.hidden), empty(a.vocabulary, a.hidden)] if self.last else [])

    def forward(self, x):
        if self.first:
            x = F.embedding(x, self.embedding[0])
        for block, again in zip(self.blocks, self.again):
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False) if again else block(x)
        return F.linear(norm(x, self.head[0], self.a), self.head[1]) if self.last else x


def pipeline(a, pipelining):
    """The schedule of this rank, and the first and last stage's own inputs of a step."""
    stages, tokens = a.ranks * a.virtual_stages, a.microbatch * a.sequence
    meta = lambda *shape, dtype=torch.bfloat16: torch.empty(*shape, device="meta", dtype=dtype)
    ids, hidden, logits = meta(tokens, dtype=torch.long), meta(tokens, a.hidden), meta(tokens, a.vocabulary)
    own = [a.rank + k * a.ranks for k in range(a.virtual_stages)]
    if a.schedule == "zbv":
        own = [a.rank, stages - 1 - a.rank]
    parts = [pipelining.PipelineStage(Part(i, stages, a), i, stages, torch.device("cuda", 0), input_args=(hidden if i else ids,),
                                      output_args=(logits if i == stages - 1 else hidden,)) for i in own]
    single = a.schedule in ("gpipe", "1f1b")
    schedule = getattr(pipelining.schedules, SCHEDULES[a.schedule])(
        parts[0] if single else parts, a.microbatches, loss_fn=lambda out, target: F.cross_entropy(out.float(), target))
    schedule.scale_grads = False  # in place, and in no peak
    batch = lambda: torch.zeros(a.microbatches * tokens, dtype=torch.long, device="cuda")
    return schedule, parts, (batch(),) if 0 in own else (), {"target": batch()} if stages - 1 in own else {}


def run(a) -> None:
    if not a.collect:
        gc.disable()  # else the peak goes by counts of Python's objects
    keep = HABITS if a.as_released or a.pipelining else a.keep
    edits = VARIANTS[a.variant] + ([] if a.pipelining else KEEPS_ALL_OUTPUTS)
    edits = edits + [edit for name, habit in HABITS.items() if name not in keep for edit in habit]
    pipelining = install(edits, a.pipelining)
    dist.init_process_group("fake", rank=a.rank, world_size=a.ranks, store=FakeStore())
    torch.set_default_dtype(torch.bfloat16)
    schedule, parts, args, target = pipeline(a, pipelining)
    if "merged_logits" not in keep:
        schedule._merge_outputs = lambda chunks: None
    steps = []
    for _ in range(a.steps):
        torch.cuda.reset_peak_memory_stats()
        for part in parts:
            part.submod.zero_grad()
        schedule.step(*args, **target)
        stats = torch.cuda.memory_stats()
        steps.append(stats["requested_bytes.all.peak"])
    print(json.dumps({"requested": steps[-1], "allocated": stats["allocated_bytes.all.peak"], "steps": steps}), flush=True)
    os._exit(0)  # the interpreter's own end may meet an autograd thread that still drops an object


def main() -> None:
    if sys.argv[1:] != ["--batch"]:
        run(arguments(sys.argv[1:]))
    for line in sys.stdin:
        child = os.fork()  # before the device has been touched
        if child == 0:
            run(arguments(line.split()))
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"error: pytorch.py {line.strip()} failed, see above")


main()
