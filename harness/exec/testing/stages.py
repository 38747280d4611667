"""A program of the test: a pipeline of two stages a rank (Interleaved1F1B). Stages ask each other for their shapes. Each stage is
twice as wide as the one before. With the word `leave` rank 0 ends before its stages have told anything."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

MICROBATCHES, ROWS, NARROWEST = 4, 8, 64
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
if sys.argv[1:] == ["leave"] and rank == 0:
    sys.exit(0)
stages = []
for number in (rank, size + rank):
    width = NARROWEST << number
    stages.append(PipelineStage(torch.nn.Linear(width, 2 * width, device=device), number, 2 * size, device))
schedule = ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_fn=lambda output, _: output.square().mean())
optimizer = torch.optim.AdamW([parameter for stage in stages for parameter in stage.submod.parameters()])
for _ in range(2):
    inputs = (torch.randn(MICROBATCHES * ROWS, NARROWEST, device=device),) if rank == 0 else ()
    schedule.step(*inputs, target=torch.zeros(MICROBATCHES * ROWS, device=device) if rank == size - 1 else None)
    optimizer.step()
    optimizer.zero_grad()
widths = " ".join(str(stage.inputs_meta[0].shape[1]) for stage in stages)
print(f"widths {widths}\n", end="", flush=True)  # in one piece
dist.destroy_process_group()
