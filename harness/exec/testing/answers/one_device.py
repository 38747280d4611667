"""Two processes on one device, each a group of its own."""
import torch
import torch.distributed as dist
from answers import answer
from parallel import PARTS

if __name__ == "__main__":
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    for name in ("replicas", "bf16 hook", "sharded optimizer"):
        with answer(name):
            PARTS[name]()
    dist.destroy_process_group()
