"""A compiled model (graphs of dynamo and of AOT autograd, run by PyTorch's operators) under DistributedDataParallel."""
import os

import torch
import torch.distributed as dist
from answers import answer
from torch.nn.parallel import DistributedDataParallel

if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    with answer("compiled"):
        layers = [torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)) for _ in range(4)]
        model = torch.compile(DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), bucket_cap_mb=1), backend="aot_eager")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(4):
            model(torch.ones(128, 256, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()
