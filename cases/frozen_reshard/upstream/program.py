"""Released sharding with frozen units: a chain of linear layers in fp32, each a unit, Adam, third of three steps, one rank of eight by itself.
`program.py CODE PATTERN [--late] [--stays] [--no-input-gradient] [+ ...]`: CODE is fsdp2, fsdp1 or fairscale; --late (of fsdp2 and fsdp1) puts the reshard of frozen
units off to the end of backward, which fairscale does as released; --stays: parameters stay gathered from forward to backward."""
import argparse
import functools
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from upstream import Phases, programs  # noqa: E402

LAYERS, HIDDEN, ROWS, ADAPTER, STEPS = 8, 4096, 8, 16, 3
FROZEN = {"even": lambda i: i % 2 == 0, "all_but_last": lambda i: i < LAYERS - 1, "first_half": lambda i: i < LAYERS // 2,
          "last_half": lambda i: i >= LAYERS // 2}


def linear(inputs, outputs, frozen=False):
    return nn.Linear(inputs, outputs, bias=False).requires_grad_(not frozen)


class Adapted(nn.Module):
    """A frozen layer and its adapter: units side by side, or (nested) the adapter's unit within that of both."""

    def __init__(self, wrap, nested):
        super().__init__()
        base = linear(HIDDEN, HIDDEN, frozen=True)
        self.base = base if nested else wrap(base)
        self.adapter = wrap(nn.Sequential(linear(HIDDEN, ADAPTER), linear(ADAPTER, HIDDEN)))

    def forward(self, x):
        return self.base(x) + self.adapter(x)


def replace(owner, name, make):
    own = getattr(owner, name)
    setattr(owner, name, functools.wraps(own)(make(own)))


def fsdp2(a, moment):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group, _fsdp_state

    group, state = _fsdp_param_group.FSDPParamGroup, _fsdp_state.FSDPState
    at_end = []

    def post_backward(own):
        def post(self, *unused):
            if at_end or any(p.sharded_param.requires_grad for p in self.fsdp_params):
                own(self, *unused)
        return post

    def final(own):
        def callback(self):
            moment("end of backward")
            at_end.append(True)
            own(self)
            at_end.clear()
        return callback

    def begins(own):
        def pre_backward(self, *unused):
            own(self, *unused)
            if self.fsdp_params:
                moment("unit")
        return pre_backward

    if a.late:
        replace(group, "post_backward", post_backward)
    replace(state, "_root_post_backward_final_callback", final)
    replace(group, "pre_backward", begins)
    return lambda module: fully_shard(module, reshard_after_forward=not a.stays)


def fsdp1(a, moment):
    import torch.distributed.fsdp._runtime_utils as runtime
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp._common_utils import HandleTrainingState

    def prefetch(own):
        def prefetch_handle(state, handle, mode):
            own(state, handle, mode)
            if handle._training_state == HandleTrainingState.BACKWARD_PRE:
                moment("unit")
        return prefetch_handle

    if a.late:
        runtime._post_backward_reshard_only_hook = lambda *those: None
    replace(runtime, "_prefetch_handle", prefetch)
    replace(runtime, "_post_backward_final_callback", lambda own: lambda *those: (moment("end of backward"), own(*those))[1])
    strategy = ShardingStrategy.SHARD_GRAD_OP if a.stays else ShardingStrategy.FULL_SHARD
    return lambda module: FullyShardedDataParallel(module, sharding_strategy=strategy)


def fairscale(a, moment):
    from fairscale.nn.data_parallel import FullyShardedDataParallel

    def begins(own):
        def prepare(self):
            own(self)
            if self.params:
                moment("unit")
        return prepare

    replace(FullyShardedDataParallel, "_prep_grads_for_backward", begins)
    replace(FullyShardedDataParallel, "_wait_for_post_backward", lambda own: lambda self: (moment("end of backward"), own(self))[1])
    return lambda module: FullyShardedDataParallel(module, compute_device=torch.device("cuda", 0), reshard_after_forward=not a.stays)


class MeanSquareError(torch.autograd.Function):
    """The loss of the scenario (cases/numbers.cpp), with the same allocations: it keeps the difference, which becomes the gradient."""

    @staticmethod
    def forward(ctx, output, target):
        apart, loss = output - target, torch.empty((), device=output.device)
        torch.mm(apart.view(1, -1), apart.view(-1, 1), out=loss.view(1, 1))
        loss.mul_(1 / apart.numel())
        apart.mul_(2 / apart.numel())
        ctx.save_for_backward(apart)
        return loss

    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0].mul_(gradient), None


def train(words, _store):
    parser = argparse.ArgumentParser()
    parser.add_argument("code", choices=["fsdp2", "fsdp1", "fairscale"])
    parser.add_argument("pattern", choices=[*FROZEN, "adapters", "nested_adapters", "mixed"])
    for flag in ("late", "stays", "no-input-gradient"):
        parser.add_argument(f"--{flag}", action="store_true")
    a = parser.parse_args(words)
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    moments = []

    def moment(name):
        stats = torch.cuda.memory_stats()
        moments.append([name, *(stats[f"{kind}_bytes.all.current"] for kind in ("allocated", "requested"))])

    wrap = {"fsdp2": fsdp2, "fsdp1": fsdp1, "fairscale": fairscale}[a.code](a, moment)
    # FSDP1 shards on the host, so that no whole parameter is left in the cache.
    with torch.device("cpu" if a.code == "fsdp1" else "cuda"):
        if a.pattern == "adapters":
            layers = [Adapted(wrap, nested=False) for _ in range(LAYERS)]
        elif a.pattern == "nested_adapters":
            layers = [wrap(Adapted(wrap, nested=True)) for _ in range(LAYERS)]
        elif a.pattern == "mixed":  # two weights a unit, of which the first is frozen
            layers = [wrap(nn.Sequential(linear(HIDDEN, HIDDEN, True), linear(HIDDEN, HIDDEN, FROZEN["even"](i)))) for i in range(LAYERS)]
        else:
            layers = [wrap(linear(HIDDEN, HIDDEN, FROZEN[a.pattern](i))) for i in range(LAYERS)]
    model = wrap(nn.Sequential(*layers))
    model.cuda()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    for _ in range(STEPS):
        phases = Phases(torch)
        moments.clear()
        optimizer.zero_grad()
        total = torch.zeros((), device="cuda")
        phases.end("zero_grad")
        x = torch.empty(ROWS, HIDDEN, device="cuda").requires_grad_(not a.no_input_gradient)
        output = model(x)
        loss = MeanSquareError.apply(output, x.detach())
        del output
        phases.end("forward")
        total.add_(loss.detach())
        loss.backward(torch.ones((), device="cuda"))
        del loss
        phases.end("backward")
        optimizer.step()
        phases.end("optimizer")
    units = LAYERS * (2 if a.pattern.endswith("adapters") else 1)
    trajectory = []
    for name, *figures in moments:
        units -= name == "unit"
        number = units ^ 1 if a.pattern == "nested_adapters" else units  # a layer's backward begins before its adapter's
        trajectory.append([f"unit {number}" if name == "unit" else name, *figures])
    return {"phases": phases.peaks, "trajectory": trajectory}


programs(train)
