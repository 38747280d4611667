"""cycles.py SECONDS: cycles of references with tensors, which Python's collector frees when it will; the host takes so long beside. Prints the peak and the runs
of the collector."""
import gc
import sys
import time

import torch


class Node:
    pass


def make():
    node = Node()
    node.itself, node.tensor = node, torch.empty(1 << 20, dtype=torch.uint8, device="cuda")


torch.cuda.init()
for _ in range(2000):
    make()
    until = time.perf_counter() + float(sys.argv[1]) / 2000
    while time.perf_counter() < until:
        pass
print(torch.cuda.max_memory_allocated(), gc.get_count(), [generation["collections"] for generation in gc.get_stats()])
