"""Tensor parallelism's gathered inputs, and the buckets of DistributedDataParallel."""
import time

import pytest
import torch
import torch.distributed as dist

import tidemark

LAYERS, ROWS, WIDTH = 3, 512, 1024


class GatheredLinear(torch.autograd.Function):
    """A column-parallel layer of a sequence-parallel input: gathers the rows of all ranks, and again in backward rather than keep them."""

    @staticmethod
    def forward(ctx, part, weight):
        ctx.save_for_backward(part, weight)
        return gather(part) @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        part, weight = ctx.saved_tensors
        grad_all = grad @ weight
        grad_part = torch.empty_like(part)
        dist.reduce_scatter_tensor(grad_part, grad_all)
        return grad_part, grad.t() @ gather(part)


def gather(part):
    whole = part.new_empty(part.shape[0] * dist.get_world_size(), *part.shape[1:])
    dist.all_gather_into_tensor(whole, part)
    return whole


@tidemark.ranks(2)
def test_tensor_parallel_keeps_its_own_rows(memory, world):
    """After forward a layer keeps the rows of its rank, x, and the output of its columns, W x columns/N, which feeds the next one; the
    gathered rows are gone."""
    columns = WIDTH // world.size
    weights = [torch.randn(columns, WIDTH, device="cuda", requires_grad=True) for _ in range(LAYERS)]
    back = [torch.randn(columns, WIDTH, device="cuda") for _ in range(LAYERS)]
    part = torch.randn(ROWS, WIDTH, device="cuda")

    def forward():
        parts = part
        for weight, other in zip(weights, back):
            wide = GatheredLinear.apply(parts, weight)  # all rows, the rank's columns
            parts = (wide @ other)[:ROWS].clone()  # stands for the row-parallel layer and its reduce-scatter
        return parts

    forward().sum().backward()  # cuBLAS has its workspaces, NCCL its communicator
    with memory.phase("forward"):
        out = forward()
    # Each layer keeps its input rows (the first one's were there before, the last one's output takes their place).
    memory.value("forward", memory.end("forward").requested - memory.occurrences("forward")[0].start["requested"]).equals(
        "L*x", L=LAYERS, x=4 * ROWS * WIDTH)
    with memory.phase("backward"):
        out.sum().backward()
    assert memory.collectives("backward") == {"all_gather": (LAYERS, LAYERS * 4 * 2 * ROWS * WIDTH),
                                              "reduce_scatter": (LAYERS, LAYERS * 4 * 2 * ROWS * WIDTH)}


@pytest.mark.parametrize("views", [0, 1])
@tidemark.ranks(2)
def test_bucket_views_halve_gradients(memory, world, views):
    """DistributedDataParallel has its buckets from the start; a gradient is a view of them, or a tensor beside them. The buckets of the first
    step live until c10d's watchdog, a thread that sleeps, has seen the end of their all-reduce, and a later one begins."""
    P = 4 * LAYERS * WIDTH * WIDTH
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]).cuda()
    model(torch.randn(8, WIDTH, device="cuda")).sum().backward()  # cuBLAS has its workspaces
    model.zero_grad()
    before = memory.held()
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[world.device.index], gradient_as_bucket_view=bool(views))
    for _ in range(3):  # the buckets are made anew in the order of the first backward
        parallel.zero_grad()
        parallel(torch.randn(8, WIDTH, device="cuda")).sum().backward()
        torch.cuda.synchronize()
        time.sleep(1)
    memory.value("gradients and buckets", memory.held() - before).equals("P if views else 2*P", P=P, views=views)
