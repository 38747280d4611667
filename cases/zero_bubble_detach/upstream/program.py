"""PyTorch's own pipelining code with this scenario's model, one rank by itself: the highest requested and allocated bytes of every step.
`program.py OPTIONS [+ OPTIONS ...]`: sizes and rank (`--rank=1 --ranks=4 ...`), --schedule, --variant.

The process group is PyTorch's fake one: it sends nothing, and a rank needs no partners. The code runs as it is installed, but for what the variant takes
back (edits.py); 2.6.0 and older want `--norm=floats`. Python's garbage collector is off unless `--collect` is given."""
import argparse
import contextlib
import gc
import sys
import time
import types
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from edits import VARIANTS, install
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from upstream import programs  # noqa: E402

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


class Coalesced(contextlib.nullcontext):
    """PyTorch's fake process group cannot group its calls before 2.8; they send nothing in any case."""

    def __init__(self, *_unused, **_options):
        super().__init__(types.SimpleNamespace(works=[types.SimpleNamespace(wait=lambda: None)]))


def after_a_pause(function):
    """Autograd's thread drops what the last run has read when it gets Python's lock: a race with the merge, where cycles keep so much that this is the peak."""
    def call(*arguments):
        time.sleep(0.05)
        return function(*arguments)
    return call


def run(words, _store):
    a = arguments(words)
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 8):
        dist.distributed_c10d._coalescing_manager = Coalesced
    if not a.collect:
        gc.disable()  # else the peak goes by counts of Python's objects
    torch.backends.cuda.enable_cudnn_sdp(False)  # the scenario's attention: from 2.11 on PyTorch prefers cuDNN's on Hopper, which keeps less
    pipelining = install(VARIANTS[a.variant])
    dist.init_process_group("fake", rank=a.rank, world_size=a.ranks, store=FakeStore())
    torch.set_default_dtype(torch.bfloat16)
    schedule, parts, args, target = pipeline(a, pipelining)
    if VARIANTS[a.variant]:
        schedule._merge_outputs = after_a_pause(schedule._merge_outputs)
    steps = []
    for _ in range(a.steps):
        torch.cuda.reset_peak_memory_stats()
        for part in parts:
            part.submod.zero_grad()
        schedule.step(*args, **target)
        stats = torch.cuda.memory_stats()
        steps.append({name: stats[f"{name}_bytes.all.peak"] for name in ("requested", "allocated")})
    return {"phases": {"step": {"requested": steps[-1]["requested"]}}, "steps": steps}


programs(run)
