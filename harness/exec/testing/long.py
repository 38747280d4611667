"""A training loop of many small steps: what one costs at the begin and at the end. Its kind is the first argument."""
import ctypes
import os
import random
import re
import sys
import tempfile
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

KIND, STEPS, PART = sys.argv[1], int(os.environ.get("TIDEMARK_SOAK_STEPS", "700")), 100
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
torch.cuda.set_device(device)
model = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4)]).to(device)
if KIND == "collectives":
    torch.distributed.init_process_group("nccl")
    model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
optimizer = torch.optim.AdamW(model.parameters()) if KIND != "no optimizer" else None


def forward(x):
    if KIND == "checkpoints":
        for block in model:
            x = checkpoint(block, x, use_reentrant=False)
        return x
    return model(x)


def step():
    rows = random.randrange(8, 4096) if KIND in ("sizes", "leak") else 32  # each step has other blocks
    with torch.profiler.record_function("loss"):
        loss = forward(torch.ones(rows, 32, device=device)).square().mean()
    loss.backward()
    if optimizer:
        optimizer.step()
    model.zero_grad()


def in_use():
    """Bytes that malloc has given out and not got back, of all threads; exact, but for a few that each thread keeps."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile() as file:
        stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        text = file.read().decode()
    whole = text[text.rindex("</heap>"):]  # the sums
    free = sum(map(int, re.findall(r'<total type="(?:fast|rest)" count="\d+" size="(\d+)"', whole)))
    mapped = int(re.search(r'<total type="mmap" count="\d+" size="(\d+)"', whole)[1])
    return int(re.search(r'<system type="current" size="(\d+)"', whole)[1]) - free + mapped


def anonymous():
    """Bytes of this process's memory that are not of a file."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


parts, kept, leaks_from = [], [], random.randrange(STEPS // 2, STEPS - 10) if KIND == "leak" else STEPS + 1
for part in range(STEPS // PART):
    begun = time.process_time()
    for number in range(part * PART + 1, (part + 1) * PART + 1):
        step()
        if number >= leaks_from:
            kept.append(torch.empty(number, device=device))
    parts.append((time.process_time() - begun, anonymous(), in_use()))
if os.environ.get("RANK", "0") == "0":
    print(f"leaks from {leaks_from} on, seconds {parts[1][0]:.3f} {min(seconds for seconds, *_ in parts[-3:]):.3f} growth {parts[-1][1] - parts[1][1]} in use {parts[-1][2] - parts[1][2]}")
