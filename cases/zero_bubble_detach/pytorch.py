#!/usr/bin/env python3
"""PyTorch's own pipelining code, one rank by itself, with this scenario's model: what pytorch.json records.

    LD_PRELOAD=$(ls $PWD/build/dev/virtual/*.so.* | tr '\\n' ':') TIDEMARK_SCHEDULE=instant TIDEMARK_CAPACITY=4398046511104 \\
      python3 cases/zero_bubble_detach/pytorch.py --rank 1 --variant drop_grads_hooks --checkpointing 2

with the torch 2.11.0 wheel; prints one line of JSON, peaks in bytes of the last step. The process group is PyTorch's fake
one: nothing is sent, and a rank needs no partners. `--as-released` leaves the five habits below in.
"""
import argparse
import gc
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.pipelining._backward as backward
import torch.distributed.pipelining.stage as stage
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import ScheduleInterleavedZeroBubble
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

# Edits of PyTorch's sources: file, what stands there, what comes instead.
SINCE_2_7 = [(stage, "        if self.is_last and save_forward_output:\n            self.output_chunks.append(output)",
              "        self.output_chunks.append(output)")]  # 2.6.0 keeps every stage's outputs
NO_DETACH = [(backward, "    for t in stage_outputs_or_loss:\n        t.detach_()\n", ""),
             (stage, "                if not t._is_view():  # views are not detachable in-place\n                    t.detach_()\n",
              "                pass\n")]
NO_CLEANING = [(backward, "    for handle in handles:\n        handle.remove()\n", ""),
               (backward, '        del param_group["intermediates"]\n', ""),
               (backward, '            del param_group["grads"]\n', "")]
VARIANTS = {"hook_cycle": NO_CLEANING, "hooks_alone": NO_DETACH, "hooks_detach_outputs_loss": NO_DETACH[1:],
            "hooks_detach_last": NO_DETACH[:1], "drop_grads_hooks": [],
            "hooks_alone_keep_grads": NO_DETACH + NO_CLEANING[2:], "keep_grads": NO_CLEANING[2:]}
HABITS = [
    # An input's gradient stays on its receive buffer until the next step.
    (backward, "    for inp, dinput in zip(input_values, dinputs):", "    for inp, dinput in []:"),
    # sum() begins with 0, so the gradient is copied.
    (backward, "summed_grad = sum(non_none_grads)", "(summed_grad,) = non_none_grads"),
    # A group's weight gradients live on in the loop's variables while the next group runs.
    (backward, "                    weight.grad += dw\n", "                    weight.grad += dw\n            del dweights, dw\n"),
]  # and two more: the logits are merged when the step ends (below), and norms written out in floats (--norm=floats)


def edit(edits) -> None:
    for module in (backward, stage):
        text = open(module.__file__, encoding="utf-8").read()
        for where, old, new in edits:
            if where is module:
                if old not in text:
                    sys.exit(f"{module.__file__} has no longer: {old!r}")
                text = text.replace(old, new)
        space = module.__dict__ if module is backward else dict(stage.__dict__)
        exec(compile(text, module.__file__, "exec"), space)
        if module is backward:
            for name in ("stage_backward", "stage_backward_input", "stage_backward_weight"):
                setattr(stage, name, getattr(backward, name))
        else:
            for name in ("forward_one_chunk", "backward_one_chunk"):
                setattr(stage._PipelineStageBase, name, getattr(space["_PipelineStageBase"], name))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"ranks": 4, "rank": 1, "steps": 2, "layers": 32, "hidden": 4096, "ffn": 11008, "heads": 32, "kv_heads": 32,
                        "vocabulary": 32000, "sequence": 2048, "microbatch": 1, "microbatches": 8, "virtual_stages": 2,
                        "checkpointing": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--variant", choices=VARIANTS, default="drop_grads_hooks")
    parser.add_argument("--norm", choices=["fused", "floats"], default="fused")
    parser.add_argument("--down-before-up", action="store_true")  # w1, w2, w3 in Llama's own order, which is that of the weight groups
    parser.add_argument("--as-released", action="store_true")
    return parser.parse_args()


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


def main() -> None:
    a = arguments()
    gc.disable()  # else the peak goes by counts of Python's objects
    edit(SINCE_2_7 + VARIANTS[a.variant] + ([] if a.as_released else HABITS))
    dist.init_process_group("fake", rank=a.rank, world_size=a.ranks, store=FakeStore())
    torch.set_default_dtype(torch.bfloat16)
    stages, tokens = a.ranks * a.virtual_stages, a.microbatch * a.sequence
    meta = lambda *shape, dtype=torch.bfloat16: torch.empty(*shape, device="meta", dtype=dtype)
    ids, hidden, logits = meta(tokens, dtype=torch.long), meta(tokens, a.hidden), meta(tokens, a.vocabulary)
    own = [a.rank + k * a.ranks for k in range(a.virtual_stages)]
    parts = [PipelineStage(Part(i, stages, a), i, stages, torch.device("cuda", 0), input_args=(hidden if i else ids,),
                           output_args=(logits if i == stages - 1 else hidden,)) for i in own]
    schedule = ScheduleInterleavedZeroBubble(parts, a.microbatches, scale_grads=False,
                                             loss_fn=lambda out, target: F.cross_entropy(out.float(), target))
    if not a.as_released:
        schedule._merge_outputs = lambda chunks: None
    batch = lambda: torch.zeros(a.microbatches * tokens, dtype=torch.long, device="cuda")
    args = (batch(),) if 0 in own else ()
    target = {"target": batch()} if stages - 1 in own else {}
    for _ in range(a.steps):
        torch.cuda.reset_peak_memory_stats()
        for part in parts:
            part.submod.zero_grad()
        schedule.step(*args, **target)
    stats = torch.cuda.memory_stats()
    print(json.dumps({key: stats[f"{key}_bytes.all.peak"] for key in ("requested", "allocated")}), flush=True)
    os._exit(0)  # the interpreter's own end may meet an autograd thread that still drops an object


main()
