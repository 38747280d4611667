"""A program of the test: data-parallel training, of which each rank prints its losses, and rank 0 those that it expects of all ranks,
computed on the CPU. `train.py spawn|fork PORT`: starts two ranks itself."""
import os
import sys

import torch
import torch.distributed as dist

STEPS = 3


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 7))


def batch(rank, step):
    return torch.randn(8, 24, generator=torch.Generator().manual_seed(100 * step + rank))


def tell(what, rank, step, loss):
    sys.stdout.write(f"{what} {rank} {step} {loss.item().hex()}\n")  # one write: the ranks share a pipe
    sys.stdout.flush()


def train(rank, size):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    net = torch.nn.parallel.DistributedDataParallel(model().cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(net.parameters(), 0.125)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = net(batch(rank, step).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        tell("loss", rank, step, loss)
    if rank == 0:
        expect(size)
    dist.destroy_process_group()


def expect(size):
    """DDP divides by the ranks before it adds; both halves of two are exact."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.125)
    for step in range(STEPS):
        optimizer.zero_grad()
        for rank in range(size):
            loss = net(batch(rank, step)).square().mean()
            (loss / size).backward()
            tell("expected", rank, step, loss)
        optimizer.step()


def spawned(rank, size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
    train(rank, size)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        torch.multiprocessing.start_processes(spawned, (2,), 2, start_method=sys.argv[1])
    else:
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
