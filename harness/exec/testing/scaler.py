"""A program of the test: mixed precision with a gradient scaler, data-parallel where there are ranks. Its layers are larger than what mode
known computes. Prints what the program sees of its values, and the steps that the optimizer has taken."""
import os
import time

import torch
import torch.distributed as dist

LAYERS, WIDTH, STEPS = 3, 768, 3
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
torch.cuda.set_device(device)
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).to(device)
if "RANK" in os.environ:
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")
for _ in range(STEPS):
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.randn(8, WIDTH, device=device)).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if not torch.isfinite(loss):
        raise ValueError("the loss is not finite")
    if dist.is_initialized():
        torch.cuda.synchronize()
        time.sleep(0.3)  # the watchdog of the process group releases its buckets every 0.1 s of the host's clock
steps = {state["step"].item() for state in optimizer.state.values()}
os.write(1, f"scale {scaler.get_scale()} steps {steps} states {len(optimizer.state)}\n".encode())  # at once: print may make two writes, with another rank's between
if dist.is_initialized():
    dist.destroy_process_group()
