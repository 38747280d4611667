#!/usr/bin/env python3
"""Random allocations and frees of a program, whose snapshots a replay must repeat. A line of stdin is a run, in a process of its own:
OUT SEED SETTINGS WORDS, with allocator settings ("none") and these words, with commas: zero (recorded from the first byte, else from the
middle), streams, work (of theirs, which holds frees back), pools (private ones), empty (torch.cuda.empty_cache), capacity=MIB, schedule=NAME,
fraction=PART (torch.cuda.set_per_process_memory_fraction).
A run ends with its first out of memory. Prints a line of JSON for each: OUT, how often the cache was emptied, and PyTorch's own statistics at its end."""
import json
import os
import random
import sys

import torch

SIZES = (512, 5000, 700000, 1 << 20, 2200000, 3 << 20, 11 << 20, 19 << 20, 30 << 20)


def record():
    for device in range(torch.cuda.device_count()):
        torch.cuda.memory._record_memory_history(max_entries=1000000, device=device, stacks="python")


def allocate(streams, pools, work):
    def tensor():
        return torch.empty(random.choice(SIZES) + random.randrange(4096), dtype=torch.uint8, device="cuda")

    with torch.cuda.device(random.randrange(torch.cuda.device_count())):
        way = random.random()
        if streams and way < 0.4:
            with torch.cuda.stream(random.choice(streams)):
                made = tensor()
        elif pools and way > 0.7:
            with torch.cuda.use_mem_pool(random.choice(pools)):
                made = tensor()
        else:
            made = tensor()
    if streams and random.random() < 0.3:
        stream = random.choice(streams)
        if work:
            with torch.cuda.stream(stream):
                made.fill_(1)
        made.record_stream(stream)
    return made


def run(out, seed, settings, words):
    random.seed(int(seed))
    for word in words:
        name, _, value = word.partition("=")
        if name == "capacity":
            os.environ["TIDEMARK_CAPACITY"] = str(int(value) << 20)
        elif name == "schedule":
            os.environ["TIDEMARK_SCHEDULE"] = value
        elif name == "fraction":
            torch.cuda.set_per_process_memory_fraction(float(value))
    if settings != "none":
        torch._C._accelerator_setAllocatorSettings(settings)
    if "zero" in words:
        record()
    streams = [torch.cuda.Stream() for _ in range(3)] if "streams" in words else []
    pools = [torch.cuda.MemPool() for _ in range(2)] if "pools" in words else []
    alive, emptied = [], 0
    for i in range(400):
        if i == 150 and "zero" not in words:
            record()
        step = random.random()
        if step < 0.55 or not alive:
            try:
                alive.append(allocate(streams, pools, "work" in words))
            except torch.OutOfMemoryError:
                break
        elif step < 0.98:
            alive.pop(random.randrange(len(alive)))
        elif "empty" in words:
            torch.cuda.empty_cache()
            emptied += 1
    statistics = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(out)
    print(json.dumps({"out": out, "emptied": emptied, **{key: statistics[key] for key in ("reserved_bytes.all.peak", "reserved_bytes.all.current", "allocated_bytes.all.peak",
                                                                       "active_bytes.all.peak", "num_alloc_retries", "num_ooms")}}))
    sys.stdout.flush()
    os._exit(0)  # pools and streams end in no order


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        out, seed, settings, words = line.split()
        run(out, seed, settings, words.split(","))
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(3)
