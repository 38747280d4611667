"""parallel.py [PART...]: what process groups keep until their watchdog has seen the end of a work, in each way of training on two ranks."""
import contextlib
import os
import sys
import time

import torch
import torch.distributed as dist
from answers import answer
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


def network():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(4)]).cuda()


def train(model, optimizer, parts=1, after_backward=lambda: None, read=False, pause=0.0):
    for _ in range(STEPS):
        for part in range(parts):
            with model.no_sync() if part + 1 < parts else contextlib.nullcontext():
                loss = model(torch.randn(64, 128, device="cuda")).square().mean()
                loss.backward()
        after_backward()
        if read:
            loss.item()
        time.sleep(pause)
        optimizer.step()
        time.sleep(pause)
        optimizer.zero_grad()


def replicated(parts=1, hook=None, read=False, pause=0.0, optimizer=torch.optim.AdamW, **flags):
    model = DistributedDataParallel(network(), bucket_cap_mb=0.5, **flags)
    if hook:
        model.register_comm_hook(None, hook)
    train(model, optimizer(model.parameters()), parts, read=read, pause=pause)


def sharded_optimizer(pause=0.0):
    replicated(pause=pause, optimizer=lambda parameters: ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, lr=1e-3))


def sharded():
    model = network()
    for block in model:
        fully_shard(block)
    fully_shard(model)
    train(model, torch.optim.AdamW(model.parameters()))


def by_hand(call, keep):
    """Collectives of the program's own, of a second group, each with a tensor of its own."""
    model, group = network(), dist.new_group()

    def communicate():
        works = [call(parameter.grad.clone(), group) for parameter in model.parameters()]
        for work in works if keep else ():
            work.wait()
    train(model, torch.optim.AdamW(model.parameters()), after_backward=communicate)


def reduce(tensor, group):
    return dist.all_reduce(tensor, group=group, async_op=True)


def exchange(tensor, group):
    return dist.all_to_all_single(torch.empty_like(tensor), tensor, group=group, async_op=True)


def gather(tensor, group):
    return dist.all_gather([torch.empty_like(tensor) for _ in range(2)], tensor, group=group, async_op=True)


def send(tensor, group):
    other = 1 - dist.get_rank()
    return dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, other, group), dist.P2POp(dist.irecv, torch.empty_like(tensor), other, group)])[-1]


PARTS = {
    "replicas": replicated,
    "replicas, read": lambda: replicated(read=True),
    "bucket views": lambda: replicated(gradient_as_bucket_view=True),
    "static graph": lambda: replicated(static_graph=True),
    "bf16 hook": lambda: replicated(hook=default_hooks.bf16_compress_hook),
    "fp16 hook, views": lambda: replicated(hook=default_hooks.fp16_compress_hook, gradient_as_bucket_view=True),
    "accumulated": lambda: replicated(parts=2),
    "sharded optimizer": sharded_optimizer,
    "sharded": sharded,
    "waited for": lambda: by_hand(reduce, True),
    "reductions dropped": lambda: by_hand(reduce, False),
    "exchanges dropped": lambda: by_hand(exchange, False),
    "gathers dropped": lambda: by_hand(gather, False),
    "messages dropped": lambda: by_hand(send, False),
}
LONG = {"replicas": replicated, "bucket views": lambda pause: replicated(gradient_as_bucket_view=True, pause=pause), "sharded optimizer": sharded_optimizer}
PARTS |= {f"{name}, long steps": lambda part=part: part(pause=0.15) for name, part in LONG.items()}
if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for name in sys.argv[1:] or PARTS:
        with answer(name):
            PARTS[name]()
    dist.destroy_process_group()
