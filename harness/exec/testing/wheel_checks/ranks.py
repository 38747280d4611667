"""Two ranks, or one of two without its partner."""
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from wheel_checks.attention import Backend
from wheel_checks.registry import BF16, Mode, batch, check, close, equal, model, since


@check("ranks")
def collectives():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((4,), float(rank + 1), device="cuda")
    dist.all_reduce(x)
    equal(x, torch.full((4,), size * (size + 1) / 2))
    gathered = torch.empty(size * 2, device="cuda")
    dist.all_gather_into_tensor(gathered, torch.full((2,), float(rank), device="cuda"))
    equal(gathered, torch.arange(size).repeat_interleave(2).float())
    part = torch.empty(2, device="cuda")
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * size, device="cuda"))
    equal(part, size * torch.arange(2.0 * size)[2 * rank:2 * rank + 2])
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    dist.barrier()


@check("ranks")
def captured_collectives():
    """A capture soon after collectives: PyTorch 2.4 to 2.6 wait for their watchdogs before they begin one."""
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    dist.all_reduce(x)
    begun = time.monotonic()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    graph.replay()
    equal(x, torch.full((4,), float(dist.get_world_size() ** 2)))
    assert time.monotonic() - begun < 10, f"{time.monotonic() - begun:.0f} s"


def expected(size, steps):
    """The losses of all ranks and the parameters, of training with the mean of all gradients on the CPU."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.125)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(size):
            loss = net(batch(rank, step)).square().mean()
            (loss / size).backward()  # two ranks: both halves are exact
            losses.append((step, rank, loss.item()))
        optimizer.step()
    return losses, [p.detach() for p in net.parameters()]


def train(net, whole):
    rank, size = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.SGD(net.parameters(), 0.125)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        loss = net(batch(rank, step).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append((step, rank, loss.item() if Mode.numbers else None))
    if not Mode.numbers:
        return
    wanted, parameters = expected(size, 3)
    assert losses == [one for one in wanted if one[1] == rank], f"losses {losses}, on the CPU {wanted}"
    for one, other in zip(net.parameters(), parameters):
        equal(whole(one), other)


@check("ranks", "training", "absent")
def data_parallel():
    train(torch.nn.parallel.DistributedDataParallel(model().cuda()), lambda parameter: parameter)


def fully_shard():
    try:
        from torch.distributed.fsdp import fully_shard as shard
    except ImportError:  # before 2.6
        from torch.distributed._composable.fsdp import fully_shard as shard
    return shard


@check("ranks", "absent")
def fully_sharded():
    """FSDP2."""
    net, shard = model().cuda(), fully_shard()
    for layer in net:
        if list(layer.parameters()):
            shard(layer)
    train(shard(net) or net, lambda parameter: parameter.full_tensor())


@check("ranks", "absent")
def fully_sharded_flat():
    """FSDP1."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    net = FullyShardedDataParallel(model().cuda(), use_orig_params=True, device_id=torch.cuda.current_device())
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    for step in range(2):
        net(batch(dist.get_rank(), step).cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@check("ranks")
def data_parallel_hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    power = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    for state, hook in (None, default_hooks.fp16_compress_hook), (None, default_hooks.bf16_compress_hook), (power, powerSGD_hook.powerSGD_hook):
        net = torch.nn.parallel.DistributedDataParallel(model().cuda(), gradient_as_bucket_view=True)
        net.register_comm_hook(state, hook)
        for step in range(4):
            net(batch(dist.get_rank(), step).cuda()).square().mean().backward()


def mesh(*names):
    from torch.distributed.device_mesh import init_device_mesh
    return init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=names or ("ranks",))


def tensors():
    """The module of DTensor."""
    import torch.distributed.tensor as module
    if hasattr(module, "Shard"):
        return module
    import torch.distributed._tensor as module  # before 2.5
    return module


@check("ranks", "absent")
def device_mesh():
    whole = torch.arange(16.0).reshape(4, 4)
    part = tensors().distribute_tensor(whole.cuda(), mesh(), [tensors().Shard(0)])
    assert part.to_local().shape == (4 // dist.get_world_size(), 4)
    full = part.full_tensor()
    if Mode.group == "ranks":
        equal(full, whole)


@check("ranks", "absent")
def tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    net = parallelize_module(model().cuda(), mesh("tp"), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    out = net(batch(0, 0).cuda())
    out.square().mean().backward()
    if Mode.group == "ranks":
        close(out, model()(batch(0, 0)), 4)


@check("ranks", "absent")
def sequence_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
    Shard = tensors().Shard
    net = torch.nn.Sequential(torch.nn.LayerNorm(24), torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)).cuda()
    plan = {"0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1)), "2": RowwiseParallel(output_layouts=Shard(1))}
    out = parallelize_module(net, mesh("tp"), plan)(torch.randn(2, 8, 24, device="cuda"))
    out.square().mean().backward()
    assert out.shape[1] == 8, out.shape  # the local part of 8 * ranks


@check("ranks")
def context_parallel():
    since(2, 6)
    from torch.distributed.tensor.experimental import context_parallel as parallel
    q, k, v = (torch.randn(1, 4, 64, 16, device="cuda", dtype=BF16, requires_grad=True) for _ in range(3))
    with parallel(mesh("cp"), buffers=[q.detach(), k.detach(), v.detach()], buffer_seq_dims=[2, 2, 2]), torch.nn.attention.sdpa_kernel(Backend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    assert q.grad.shape == q.shape


@check("ranks")
def checkpoints():
    """Distributed checkpoints of sharded parameters, written and read."""
    from torch.distributed import checkpoint
    net, shard = torch.nn.Linear(24, 40, bias=False).cuda(), fully_shard()
    shard(net)
    place = [tempfile.mkdtemp()]
    dist.broadcast_object_list(place)
    state = {"weight": net.weight}
    before = net.weight.to_local().clone()
    checkpoint.save(state, checkpoint_id=place[0])
    with torch.no_grad():
        net.weight.to_local().zero_()
    checkpoint.load(state, checkpoint_id=place[0])
    equal(net.weight.to_local(), before)


@check("ranks")
def remote_calls():
    from torch.distributed import rpc
    rank, size = dist.get_rank(), dist.get_world_size()
    place = [tempfile.mkdtemp() + "/store"]
    dist.broadcast_object_list(place)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place[0]}"))
    assert torch.equal(rpc.rpc_sync(f"worker{(rank + 1) % size}", torch.add, args=(torch.ones(2), rank)), torch.ones(2) + rank)
    rpc.shutdown()


# The last one: where a message of it fails, so does all that comes after.
@check("ranks")
def pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [torch.nn.Linear(24, 24) for _ in range(size)]
    stage = PipelineStage(layers[rank].cuda(), rank, size, torch.device("cuda", torch.cuda.current_device()), input_args=(torch.randn(4, 24, device="cuda"),))
    schedule, losses = ScheduleGPipe(stage, 2, loss_fn=lambda y, target: (y - target).square().mean()), []
    x, target = batch(0, 0), torch.zeros(8, 24)
    for _ in range(2):
        if rank == 0:
            schedule.step(x.cuda())
        elif rank == size - 1:
            schedule.step(target=target.cuda(), losses=losses)
        else:
            schedule.step()
    if rank == size - 1:
        close(torch.stack(losses[:2]).mean(), torch.nn.Sequential(*layers).cpu()(x).square().mean(), 4)
