"""Two ranks with NCCL."""
import time

from . import program, squares, stack, torch_, trained


def joined():
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))


@program(ranks=2)
def ddp():
    torch = torch_()
    joined()
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(stack(torch).cuda(), device_ids=[0])
    for _ in trained(model, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4):
        yield
        time.sleep(0.4)


def sharded(**policy):
    torch = torch_()
    joined()
    from torch.distributed.fsdp import fully_shard
    model = stack(torch)
    for layer in model:
        fully_shard(layer, **policy)
    model = fully_shard(model, **policy)
    model = model.to("cuda")
    return torch, model


@program(ranks=2)
def fsdp2_bf16():
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy
    torch, model = sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    yield from trained(model, torch.randn(4, 512, 1024, device="cuda", dtype=torch.bfloat16), squares, torch.optim.AdamW(model.parameters()), steps=4)


@program(ranks=2)
def fsdp2_fp32_kept():
    torch, model = sharded(reshard_after_forward=False)
    yield from trained(model, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4, clip=1.0)


@program(ranks=2)
def fsdp1():
    torch = torch_()
    joined()
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    model = stack(torch).cuda()
    model = FSDP(torch.nn.Sequential(*(FSDP(layer, use_orig_params=True) for layer in model)), use_orig_params=True)
    yield from trained(model, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4)


@program(ranks=2)
def tensor_parallel():
    torch = torch_()
    joined()
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cuda", (2,))
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)) for _ in range(4))).cuda()
    for layer in model:
        parallelize_module(layer, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    yield from trained(model, torch.randn(2048, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4)
