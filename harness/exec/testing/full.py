"""A program that runs out of memory on each of several GPUs, after steps that are drawn, and prints PyTorch's own message of each; then one that takes
and gives back memory outside PyTorch's allocator, and prints what it had there at most."""
import ctypes
import random
import sys

import torch

MIB = 1 << 20
cuda = ctypes.CDLL("libcudart.so.13" if torch.version.cuda.startswith("13") else "libcudart.so.12")


def outside(bytes_):
    place = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(bytes_)) == 0
    return place


def block(bytes_):
    return torch.empty(bytes_, dtype=torch.uint8, device="cuda")


def some(draw):
    """Bytes of each of the allocator's three ways: of a small segment, of one of 20 MiB, of one of its own."""
    return draw.choice([draw.randrange(1, MIB), draw.randrange(MIB, 10 * MIB), draw.randrange(10 * MIB, 60 * MIB)])


def fill(draw, device):
    kept, side = [], torch.cuda.Stream()
    capacity = torch.cuda.mem_get_info()[1]
    what = draw.sample(["fraction", "graph", "pool", "outside", "pending", "gaps"], draw.randrange(5))
    print("drawn", device, *what)
    few = [draw.randrange(1, MIB), draw.randrange(MIB, 10 * MIB), draw.randrange(10 * MIB, 20 * MIB)]
    if "outside" in what:
        kept += [outside(draw.randrange(1, 40 * MIB)) for _ in range(draw.randrange(1, 4))]
    if "graph" in what:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # PyTorch's own stream for captures is of one GPU
            parts = [block(size) for size in few]
            del parts[draw.randrange(3):]
        kept += [graph, parts]
    if "pool" in what:
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            parts = [block(size) for size in few]
            del parts[draw.randrange(3):]
        kept += [pool, parts]
    if "fraction" in what:
        torch.cuda.set_per_process_memory_fraction(draw.choice([0.3, 0.5, 0.77]), device)
    try:
        for _ in range(draw.randrange(2, 8)):
            one = block(some(draw))
            if "gaps" in what and draw.randrange(2):
                kept.append(block(some(draw)))
            elif "pending" in what and draw.randrange(2):
                with torch.cuda.stream(side):
                    torch.cuda._sleep(10**9)
                one.record_stream(side)
            else:
                kept.append(one)
            del one
        if draw.randrange(2):
            block(capacity - draw.randrange(40 * MIB))
        while True:  # until even a small one fails
            kept.append(block(draw.choice([MIB + 1, 3 * MIB, 8 * MIB])))
    except torch.OutOfMemoryError as error:
        print("message", device, str(error).splitlines()[0], flush=True)
    return kept


def books(draw):
    """Outside and inside in turn; the platform gives memory in granules of 2 MiB."""
    held, ours, now, most, all_most = [], [], 0, 0, 0
    free, total = torch.cuda.mem_get_info()
    context = total - free
    for _ in range(400):
        way = draw.randrange(6)
        if way == 0:
            bytes_ = draw.randrange(1, 30 * MIB)
            held.append((outside(bytes_), -(-bytes_ // (2 * MIB)) * 2 * MIB))
            now += held[-1][1]
        elif way == 1 and held:
            place, bytes_ = held.pop(draw.randrange(len(held)))
            assert cuda.cudaFree(place) == 0
            now -= bytes_
        elif way == 2:
            ours.append(block(some(draw)))
        elif way == 3 and ours:
            ours.pop(draw.randrange(len(ours)))
        elif way == 4:
            torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        assert total - free - context == torch.cuda.memory_reserved() + now, (total - free, context, torch.cuda.memory_reserved(), now)
        most, all_most = max(most, now), max(all_most, total - free - context)
    print("outside", most, "taken", all_most)


if sys.argv[1] == "books":
    books(random.Random(int(sys.argv[2])))
else:
    everything = []
    for number in range(int(sys.argv[3])):
        with torch.cuda.device(number):
            everything.append(fill(random.Random(int(sys.argv[2]) * 100 + number), number))
