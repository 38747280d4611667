"""Programs whose reports are compared with what they hold at their end."""
import os

import torch
import torch.distributed as dist
from wheel_checks.ranks import fully_shard


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Conv2d(width, width, 3, padding=1, bias=False), torch.nn.BatchNorm2d(width), torch.nn.ReLU())

    def forward(self, x):
        return x + self.inner(x)


class Recomputed(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)


def layers(width=64):
    return [torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(2)]


def sharded(net):
    shard = fully_shard()
    for layer in net:
        shard(layer)
    return shard(net) or net


PROGRAMS = {  # the network, the sizes of a batch, and whether it runs on ranks
    "perceptron": (lambda: torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)), (32, 256), False),
    "residual": (lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), Residual(32), Residual(32)), (4, 3, 16, 16), False),
    "transformer": (lambda: torch.nn.Sequential(*layers()), (4, 32, 64), False),
    "checkpointed": (lambda: torch.nn.Sequential(*(Recomputed(layer) for layer in layers())), (4, 32, 64), False),
    "data_parallel": (lambda: torch.nn.Sequential(*layers()), (4, 32, 64), True),
    "fully_sharded": (lambda: torch.nn.Sequential(*layers()), (4, 32, 64), True),
}


def storages(tensors):
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors if t is not None]
    kept = {s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in local if t.device.type == "cuda")}
    return sum(kept.values())


KEPT = []  # until the end of the process


def program(name):
    make, sizes, ranks = PROGRAMS[name]
    if ranks:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    net = make().cuda()
    net = torch.nn.parallel.DistributedDataParallel(net) if name == "data_parallel" else sharded(net) if ranks else net
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    KEPT.extend([net, optimizer])
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(sizes, device="cuda")).square().mean().backward()
        optimizer.step()
    state = [t for one in optimizer.state.values() for t in one.values() if isinstance(t, torch.Tensor)]
    for kind, tensors in (("parameters", net.parameters()), ("gradients", [p.grad for p in net.parameters()]), ("optimizer state", state)):
        os.write(1, f"holds {kind} {storages(list(tensors))}\n".encode())  # at once: the ranks write to one pipe
    if ranks:
        dist.destroy_process_group()
