"""Process groups of PyTorch beside the program: time-outs, hooks, calls that return before their partners call."""
import sys

from testing.said import HERE, Said, python

BEGIN = """import datetime, os, time, torch.distributed as dist
dist.init_process_group('nccl', timeout=datetime.timedelta(seconds={seconds}))
rank = dist.get_rank()
torch.cuda.set_device(rank)
x = torch.ones(4, device='cuda')
dist.all_reduce(x)
store = dist.distributed_c10d._get_default_store()
"""


def program(text, seconds=60):
    return BEGIN.format(seconds=seconds) + text


# night: waits for processes that are idle
def test_idle():
    """A device works on while its program sleeps, and PyTorch does not end the program for it."""
    for schedule in "calibrated", "lagging":
        result = python(program("time.sleep(9)\nprint(x.tolist())", seconds=4), "--ranks", 2, "--mode", "math", "--schedule", schedule).ends(0)
        result.check(result.out.count("[2.0, 2.0, 2.0, 2.0]") == 2, "both ranks have the sum")
    hook = ("group = dist.distributed_c10d._get_default_group()\nseen = []\ngroup._register_on_completion_hook(lambda info: seen.append(str(info.op_type)))\n"
            "dist.all_reduce(x)\ndist.all_gather_into_tensor(torch.empty(8, device='cuda'), x)\ndist.destroy_process_group()\nprint(seen[-2:])")
    result = python(program(hook), "--ranks", 2, "--mode", "math", TORCH_NCCL_ENABLE_TIMING="1").ends(0)
    result.check(result.out.count("['OpType.ALLREDUCE', 'OpType._ALLGATHER_BASE']") == 2, "the hook has seen both works before the group ends")


# night: waits for threads that enqueue in any order
def test_enqueue():
    """Ranks that a store puts in order after a call, under each schedule and with races watched."""
    text = """z = torch.ones(4, device='cuda')
if rank == 1: store.wait(['go'])
one, two = dist.all_reduce(x, async_op=True), dist.all_reduce(z, async_op=True)
if rank == 0: store.set('go', '1')
one.wait(); two.wait()
y = torch.zeros(4, device='cuda')
if rank == 0:
    dist.send(x, 1)
    store.wait(['receives'])
    dist.send(x + 1, 1)
else:
    dist.recv(y, 0)
    work = dist.irecv(y, 0)
    store.set('receives', '1')
    work.wait()
print((x + z).tolist(), y.tolist())
dist.destroy_process_group()"""
    for flags in ("--schedule", "instant"), ("--schedule", "lagging"), ("--schedule", "calibrated", "--races", "on", "--no-races"):
        result = python(program(text), "--ranks", 2, "--mode", "math", *flags).ends(0)
        result.check(result.out.count("[6.0, 6.0, 6.0, 6.0] [0.0, 0.0, 0.0, 0.0]") == result.out.count("[6.0, 6.0, 6.0, 6.0] [5.0, 5.0, 5.0, 5.0]") == 1, "sums and messages")


def test_apart():
    """What does not come after a collective on the device does not wait for its partners: an event of before, other streams. A partner may wait for it."""
    text = """event, side = torch.cuda.Event(), torch.cuda.Stream()
dist.all_reduce(x)
torch.cuda.synchronize()
event.record()
if rank == 1:
    z = torch.ones(4, device='cuda')
    work = dist.all_reduce(x, async_op=True)
    event.synchronize()
    side.synchronize()
    print('beside', (z * 2).sum().item())
    store.set('go', '1')
    work.wait()
else:
    store.wait(['go'])
    dist.all_reduce(x)
print(x.tolist())
dist.destroy_process_group()"""
    result = python(program(text), "--ranks", 2, "--mode", "math", "--schedule", "lagging").ends(0)
    result.check(result.out.count("beside 8.0") == 1 and result.out.count("[8.0, 8.0, 8.0, 8.0]") == 2, "both ranks end with the sum of both collectives")


def test_leaves():
    """The host that waits for a collective whose partner has left gets an error, and no result."""
    text = """dist.all_reduce(x)
torch.cuda.synchronize()
if rank == 1: os._exit(0)
try:
    dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=60))
    print('a result', flush=True)
except dist.DistBackendError: print('an error', flush=True)
os._exit(0)"""
    own = {"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
    result = python(program(text), "--ranks", 2, "--mode", "math", **own).ends(0)
    result.check("an error" in result.out and "a result" not in result.out, "no work ends well without its partner")


# night: waits for the time-outs of groups
def test_timeout():
    """The time-out of a work, and of its group, is reached while a partner is missing."""
    text = """if rank == 0:
    try: dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=2))
    except dist.DistBackendError as error: print('time-out' if 'timed out' in str(error) or 'imeout' in str(error) else error, flush=True)
    store.set('go', '1')
    store.wait(['seen'])  # the store is in this process
else:
    store.wait(['go'])
    store.set('seen', '1')
os._exit(0)"""
    # Else PyTorch's watchdog ends the process as soon as it sees the error, perhaps before the program has printed it.
    own = {"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
    result = python(program(text), "--ranks", 2, "--mode", "math", **own).ends(0)
    result.check(result.out == "time-out\n", "the work's time-out")
    text = "if rank == 0:\n dist.all_reduce(x, async_op=True)\ntime.sleep(40)"
    result = python(program(text, seconds=3), "--ranks", 2, "--mode", "math", TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="500")  # four times this it waits
    result.check(result.code != 0 and "Watchdog caught collective operation timeout" in result.err, "the group's time-out")


# night: repeats exec_group_symmetric with processes that share memory in other ways
def test_shared():
    """Tensors and events on a GPU that one process sends to another (CUDA IPC)."""
    shared = HERE / "shared.py"
    for flags in ("math",), ("known",), ("math", "--alloc-conf", "expandable_segments:True"):
        result = Said("--mode", *flags, "--", sys.executable, shared, "memory").ends(0)
        # The receiver takes no device memory, the sender's stays, and a write of one is read by the other.
        result.check(result.out == "('cuda:0', (32,), [8, 9, 10, 11], 0, 0)\nwritten [8, 7, 7, 11] 512\n0 0 0\n", "both processes have the tensor")
    result = Said("--mode", "shapes", "--", sys.executable, shared, "event").ends(0)
    result.check(result.out == "True\n0\n", "the event of another process is waited for")
    result = Said("--mode", "math", "--", sys.executable, shared, "ended").ends(0)
    result.check(result.out == "CUDA error: invalid resource handle\nCUDA error: invalid device context\n", "what a process that has ended and what the process itself has made")


def test_symmetric():
    """Symmetric memory: each rank reads and writes the buffers of the others, is ordered on the device, and reduces; in mode known too, as far as the inputs are known."""
    text = """import torch.distributed._symmetric_memory as symm
x = symm.empty(1024, device=f'cuda:{rank}')
handle = symm.rendezvous(x, dist.group.WORLD)
group = dist.group.WORLD.group_name
x.fill_(rank + 1)
handle.barrier()
peer = handle.get_buffer(1 - rank, (1024,), torch.float32)
seen = peer[:2].tolist()
handle.barrier(channel=1)
peer[1] = 9
handle.put_signal(1 - rank)
handle.wait_signal(1 - rank)
free, total = torch.cuda.mem_get_info()
print(rank, seen, x[:3].tolist(), total - free >> 20, flush=True)
try: torch.ops.symm_mem.multimem_all_reduce_(x, 'sum', group)
except RuntimeError as error: print(str(error).splitlines()[0], flush=True)
handle.barrier()
print('one shot', torch.ops.symm_mem.one_shot_all_reduce(x, 'sum', group)[:3].tolist())
print('two shot', torch.ops.symm_mem.two_shot_all_reduce_(x, 'sum', group)[:3].tolist(), peer[1023].item(), flush=True)
gathered, products = torch.ops.symm_mem.fused_all_gather_matmul(x.view(32, 32), [x.new_ones(32, 8)], 0, group)
print(tuple(gathered.shape), products[0][0, 0].item(), flush=True)
if __import__('os').environ['TIDEMARK_MODE'] == 'math':
    shard, b = torch.full((128, 64), rank + 1., dtype=torch.bfloat16, device='cuda'), torch.ones(64, 64, dtype=torch.bfloat16, device='cuda')
    gathered, product = symm._fused_all_gather_matmul_native(shard, b, group)  # its kernel waits for the parts, which later calls bring
    print('native', [(x[::128, 0]).tolist() for x in (gathered, product)], (product * 2)[255, 63].item(), flush=True)
dist.destroy_process_group()"""
    for mode in "math", "known":
        result = python(program(text), "--ranks", 2, "--mode", mode, "--reserve", 0).ends(0)
        for line in "0 [2.0, 2.0] [1.0, 9.0, 1.0] 4", "1 [1.0, 1.0] [2.0, 9.0, 2.0] 4":  # 2 MiB are the buffer, 2 MiB the allocator's
            result.check(line in result.out, "both ranks have written into each other's buffer, and pay for their own")
        result.check(result.out.count("multicast support is required") == 2, "without multicast")
        result.check(result.out.count("one shot [3.0, 18.0, 3.0]") == 2 and result.out.count("two shot [3.0, 18.0, 3.0] 3.0") == 2, "the sums of both buffers")
        if mode == "math":
            result.check(result.out.count("(64, 32) 111.0") == 2, "the product of what both ranks have")
            result.check(result.out.count("native [[1.0, 2.0], [64.0, 128.0]] 256.0") == 2, "the product that waits on the device for its operand")
        result.check("Error" not in result.out, "nothing is refused")


# night: starts programs that wait for each other on remote names
def test_remote():
    """Processes that call each other by RPC with tensors on their GPUs."""
    result = Said("--mode", "math", "--devices", 2, "--", sys.executable, HERE / "remote.py").ends(0)
    result.check(result.out == "equal\n", "the answers are the CPU's")
