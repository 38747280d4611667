"""A program of the test: FSDP2 of a stack of layers under AdamW; rank 0's data are broadcast, and a group is split off. Prints the bytes
that are allocated at rest."""
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

LAYERS, WIDTH = 4, 1024
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
pair = dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True)
parts = dist.split_group(split_ranks=[[member for member in range(size) if member % 2 == odd] for odd in (0, 1)])
gathered = [None] * size
dist.all_gather_object(gathered, {"rank": rank})
assert gathered[rank] == {"rank": rank}

torch.manual_seed(0)
with torch.device("meta"):
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
for layer in model:
    fully_shard(layer)
fully_shard(model)
model.to_empty(device="cuda")
for parameter in model.parameters():
    torch.nn.init.normal_(parameter)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    batch = torch.randn(64, WIDTH, device="cuda")
    dist.broadcast(batch, 0)
    loss = model(batch).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    dist.all_reduce(loss.detach(), group=pair)
    dist.all_reduce(loss.detach(), group=parts)
    optimizer.step()
    optimizer.zero_grad()
    dist.barrier()
del batch, loss
print(f"rest {torch.cuda.memory_allocated()}\n", end="", flush=True)  # in one piece
dist.destroy_process_group()
