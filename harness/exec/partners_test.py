"""Ranks of one command without partners (--as-rank): what they send each other."""
import random

from testing.said import python, seed


def test_values():
    """Integers that ranks of one command send each other have the values that they have with partners, in each way to send them; so have DTensor's random
    states with a group of NCCL alone, and copies of storages run. Drawn sizes and values."""
    draw = random.Random(seed())
    sizes = [draw.randrange(1, 300) for _ in range(5)]
    program = f"""
import random, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank % torch.cuda.device_count())
draw = random.Random({seed()} + rank)
got = []
for way, size in enumerate({sizes}):
    kind = [torch.int32, torch.int64, torch.uint8, torch.bool, torch.int64][way]
    mine = torch.tensor([draw.randrange(2) for _ in range(size)]).to(kind).cuda()
    theirs = torch.empty(size, dtype=kind, device="cuda")
    other = 1 - rank
    if way == 0:
        dist.send(mine, other) if rank == 0 else dist.recv(theirs, other)
        dist.recv(theirs, other) if rank == 0 else dist.send(mine, other)
    elif way == 1:
        works = [dist.irecv(theirs, other), dist.isend(mine, other)] if rank == 0 else [dist.isend(mine, other), dist.irecv(theirs, other)]
        for work in works: work.wait()
    else:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]): work.wait()
    got.append(theirs.cpu().tolist())
weight = distribute_tensor(torch.empty(64, 64, device="cuda"), init_device_mesh("cuda", (2,)), [Shard(0)])
torch.nn.init.normal_(weight)
large = torch.empty(1 << 20, device="cuda") * 2
torch.UntypedStorage(large.untyped_storage().nbytes()).copy_(large.untyped_storage())
objects = [got]
dist.send_object_list(objects, 1) if rank == 0 else dist.recv_object_list(objects, 0)
print(rank, got, objects == [got], flush=True)
dist.destroy_process_group()
"""
    present, absent = python(program, "--ranks", 2).ends(0), python(program, "--as-rank", "0,1", "--of", 2).ends(0)
    absent.check(sorted(present.out.splitlines()) == sorted(absent.out.splitlines()) and present.out.count("\n") == 2, f"the same values (TIDEMARK_TEST_SEED={seed()}):\n{present.out}")
    alone = python("import torch.distributed as dist\ndist.init_process_group('nccl')\nx = torch.zeros(3, dtype=torch.int64, device='cuda')\ndist.recv(x, 1)\nx.cpu()",
                   "--as-rank", 0, "--of", 2)
    alone.check(alone.code != 0 and "a value of type Long that is not known" in alone.err, "the value of a rank that was not named is not known")
