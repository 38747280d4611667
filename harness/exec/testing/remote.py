"""remote.py: two processes that call each other with tensors on their GPUs by torch.distributed.rpc, small ones and one of 12 MB; prints `equal` where the answers are those of the CPU."""
import os
import random
import socket

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def twice_and(x, y):
    return x * 2 + y


def run(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    options = rpc.TensorPipeRpcBackendOptions()
    options.set_device_map(f"worker{1 - rank}", {rank: 1 - rank})
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for sizes in [(random.randint(1, 40), random.randint(1, 40)) for _ in range(5)] + [(3_000_000,)]:
            x, y = torch.randn(sizes, device="cuda:0"), torch.randn(sizes, device="cuda:0")
            for answer in rpc.rpc_sync("worker1", twice_and, (x, y)), rpc.remote("worker1", twice_and, (x, y)).to_here():
                assert answer.device == x.device and torch.equal(answer.cpu(), twice_and(x.cpu(), y.cpu())), sizes
        print("equal")
    rpc.shutdown()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(run, (port,), 2)
