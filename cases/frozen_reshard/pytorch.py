#!/usr/bin/env python3
"""Released code with frozen units, one rank of eight by itself: the backward's peak and what is alive there.

    LD_PRELOAD=$(ls $PWD/build/dev/virtual/*.so.* | tr '\\n' ':') TIDEMARK_SCHEDULE=instant TIDEMARK_NCCL_ALONE=1 \\
      CUBLAS_WORKSPACE_CONFIG=:0:0 python3 cases/frozen_reshard/pytorch.py fsdp2|fsdp1|fairscale PATTERN [late]

with the torch 2.11.0 wheel (and fairscale 0.4.13). Eight linear layers of 4096, fp32, an input that needs a gradient, Adam,
third of three steps. Prints a row of released.md: the peak above what rests in units U of one layer's bytes, and which
whole units and shards (S = U / 8) it consists of. `late` puts the reshard of frozen units off to the
end of backward (what fairscale does anyway)."""
import collections
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

LAYERS, RANKS, HIDDEN, ADAPTER = 8, 8, 4096, 16
UNIT = 4 * HIDDEN * HIDDEN
FROZEN = {"alternating": lambda i: i % 2 == 0, "all-but-last": lambda i: i < LAYERS - 1, "prefix": lambda i: i < LAYERS // 2,
          "suffix": lambda i: i >= LAYERS // 2}


def linear(inputs, outputs, frozen=False):
    return nn.Linear(inputs, outputs, bias=False, device="cuda").requires_grad_(not frozen)


def wrapping(code, late):
    if code == "fsdp2":
        from torch.distributed.fsdp import FSDPModule, fully_shard
        from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
        if late:
            own = FSDPParamGroup.post_backward

            def post_backward(group, *unused):
                if any(p.sharded_param.requires_grad for p in group.fsdp_params) or dist.late_now:
                    own(group, *unused)

            FSDPParamGroup.post_backward = post_backward
            from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
            end = FSDPState._root_post_backward_final_callback

            def final(state):
                dist.late_now = True
                end(state)
                dist.late_now = False

            dist.late_now = False
            FSDPState._root_post_backward_final_callback = final
        return fully_shard
    if code == "fsdp1":
        import torch.distributed.fsdp._runtime_utils as runtime
        from torch.distributed.fsdp import FullyShardedDataParallel
        if late:
            runtime._register_post_backward_reshard_only_hook = lambda *unused: None
        return lambda module: FullyShardedDataParallel(module, device_id=0)
    from fairscale.nn.data_parallel import FullyShardedDataParallel as Fairscale
    return lambda module: Fairscale(module, compute_device=torch.device("cuda", 0))


class Adapted(nn.Module):
    """A frozen layer and its adapter: units side by side, or (nested) the adapter's unit within that of both."""

    def __init__(self, wrap, nested):
        super().__init__()
        self.base = linear(HIDDEN, HIDDEN, frozen=True) if nested else wrap(linear(HIDDEN, HIDDEN, frozen=True))
        self.adapter = wrap(nn.Sequential(linear(HIDDEN, ADAPTER), linear(ADAPTER, HIDDEN)))

    def forward(self, x):
        return self.base(x) + self.adapter(x)


# Where FSDP2, FSDP1 and fairscale allocate, and what it is.
WHAT = {"alloc_all_gather_outputs": "unsharded", "unshard": "unsharded", "_rebuild_full_params": "unsharded",
        "foreach_all_gather": "gather buffer", "_init_group": "optimizer state"}


def what(event):
    """Of a block at the peak."""
    names = [frame["name"] for frame in event["frames"]]
    for name in names:
        if name in WHAT:
            return WHAT[name]
    return "gradient" if not names else "reduction"


def main():
    code, pattern, late = sys.argv[1], sys.argv[2], "late" in sys.argv[3:]
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=RANKS)
    wrap = wrapping(code, late)
    if pattern == "adapters":
        layers = [Adapted(wrap, nested=False) for _ in range(LAYERS)]
    elif pattern == "nested-adapters":
        layers = [wrap(Adapted(wrap, nested=True)) for _ in range(LAYERS)]
    else:
        layers = [wrap(linear(HIDDEN, HIDDEN, FROZEN[pattern](i))) for i in range(LAYERS)]
    model = wrap(nn.Sequential(*layers))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    x = torch.zeros(8, HIDDEN, device="cuda", requires_grad=True)
    torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")
    events = lambda: torch.cuda.memory._snapshot()["device_traces"][0]
    for _ in range(3):
        x.grad = None
        loss = model(x).sum()
        begin = len(events())
        loss.backward()
        end = len(events())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    alive, now, peak, at_peak = {}, 0, 0, []
    for i, event in enumerate(events()[:end]):
        if event["action"] == "alloc":
            alive[event["addr"]] = event
            now += event["size"]
            if i >= begin and now > peak:
                peak, at_peak = now, list(alive.values())
        elif event["action"] == "free_requested" and event["addr"] in alive:
            now -= alive.pop(event["addr"])["size"]
    counts = collections.Counter((what(e), e["size"] >= UNIT // 2) for e in at_peak if what(e) != "optimizer state")
    peak -= sum(e["size"] for e in at_peak if what(e) == "optimizer state")
    whole = [f"{count} {name if name != 'reduction' else 'reduce-scatter input'}" for (name, large), count in sorted(counts.items()) if large]
    shards = sum(e["size"] for e in at_peak if what(e) == "reduction" and e["size"] < UNIT // 2)
    print(f"| {code} | {pattern}{', late' if late else ''} | {peak / UNIT:.3f} | {', '.join(whole)}; {8 * shards / UNIT:.2f} S |")
    sys.stdout.flush()
    os._exit(0)


main()
