"""A program of ci/wheels and of the test: what a PyTorch wheel does on the virtual platform in mode math, compared with the CPU and against the allocator's
rules. Prints a line a check: "check NAME passed", or failed or refused with the reason. `wheel.py ranks` and
`wheel.py training`: with RANK and WORLD_SIZE; `wheel.py training spawn|fork PORT`: starts two ranks itself."""
import os
import re
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.nn.functional as F

MIB = 1 << 20
CHECKS = {"alone": [], "ranks": [], "training": []}


def check(*groups):
    def add(function):
        for group in groups:
            CHECKS[group].append(function)
        return function
    return add


def equal(one, other):
    assert torch.equal(one.detach().cpu(), other.detach().cpu()), f"{one} is not {other}"


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 8))


def batch(rank, step):
    return torch.randn(8, 24, generator=torch.Generator().manual_seed(100 * step + rank))


@check("alone")
def allocations():
    """Blocks are multiples of 512 bytes; 1 to 10 MiB come from segments of 20 MiB, more from segments of multiples of 2 MiB."""
    torch.cuda.empty_cache()
    before, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    tensors = [torch.empty(n, dtype=torch.uint8, device="cuda") for n in (3 * MIB + 1, 18 * MIB)]  # the second is too long for the first's rest
    assert torch.cuda.memory_allocated() - before == 3 * MIB + 512 + 18 * MIB
    assert torch.cuda.memory_reserved() - reserved == 20 * MIB + 18 * MIB
    del tensors
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == reserved


@check("alone")
def out_of_memory():
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        assert "Tried to allocate 1024.00 GiB" in str(error)
    else:
        raise AssertionError("1 TiB was allocated")


@check("alone")
def streams_and_events():
    side, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    x = torch.arange(1 << 16, dtype=torch.float32, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        x.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    equal(y, torch.arange(1 << 16, dtype=torch.float32) * 2)


@check("alone")
def pinned_copies():
    source = torch.randn(1 << 12).pin_memory()
    there = source.to("cuda", non_blocking=True)
    back = torch.empty(1 << 12, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    equal(back, source)


@check("alone")
def training():
    """Three steps of AdamW: losses and parameters are the CPU's, to the bit."""
    results = []
    for device in "cuda", "cpu":
        net = model().to(device)
        optimizer = torch.optim.AdamW(net.parameters(), 0.125, foreach=False)
        losses = []
        for step in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(batch(0, step).to(device)), torch.arange(8, device=device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        results.append((losses, [p.detach().cpu() for p in net.parameters()]))
    assert results[0][0] == results[1][0], f"losses {results[0][0]}, on the CPU {results[1][0]}"
    for one, other in zip(results[0][1], results[1][1]):
        equal(one, other)


@check("alone")
def operators():
    torch.manual_seed(1)
    x = torch.randn(4, 6, 8)
    for function in (lambda t: F.layer_norm(t, (8,)), lambda t: t.softmax(-1), lambda t: t @ t.transpose(1, 2), lambda t: t.cumsum(0),
                     lambda t: t.topk(3).indices, lambda t: (t > 0).nonzero(), lambda t: t[t > 0].sort().values,
                     lambda t: F.embedding(torch.arange(4, device=t.device), t[0])):
        equal(function(x.cuda()), function(x))


@check("alone")
def attention():
    q = torch.randn(1, 2, 16, 8)
    there = F.scaled_dot_product_attention(q.cuda(), q.cuda(), q.cuda(), is_causal=True)
    torch.testing.assert_close(there.cpu(), F.scaled_dot_product_attention(q, q, q, is_causal=True))


@check("alone")
def mixed_settings():
    """Settings of before PyTorch 2.9 beside newer ones: the host code of a product takes the newer ones."""
    torch.set_float32_matmul_precision("highest")
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        return
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    there, exact = (a.cuda() @ b.cuda()).cpu(), a @ b
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert 0 < (there - exact).abs().max() < 0.05, "rounded as TF32 is"
    equal(a.cuda() @ b.cuda(), exact)


@check("alone")
def flash_attention():
    """With the identity as values the output is the probabilities that dropout has left, and the backward must take the same ones."""
    torch.manual_seed(2)
    q, k, grad = (torch.randn(1, 2, 16, 16, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    v = torch.eye(16, device="cuda", dtype=torch.bfloat16).expand(1, 2, 16, 16).clone().requires_grad_()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        left = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    left.backward(grad)
    assert 0.1 < (left == 0).float().mean().item() < 0.4
    torch.testing.assert_close(v.grad.float(), left.float().transpose(2, 3) @ grad.float(), rtol=0.02, atol=0.05)  # of bf16


@check("alone")
def grad_scaler():
    """A loss that overflows is skipped, and halves the scale."""
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    weight = torch.ones(4, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0 and weight.tolist() == [1.0] * 4


@check("alone")
def snapshot():
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(max_entries=100)
    tensor = torch.empty(7 * MIB, dtype=torch.uint8, device="cuda")
    recorded = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    assert any(event["action"] == "alloc" and event["size"] == tensor.numel() for event in recorded["device_traces"][0])
    assert any(segment["total_size"] == 20 * MIB for segment in recorded["segments"])


@check("alone")
def graphs():
    """A CUDA graph computes again at each launch."""
    x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x + 1).square()
        z = torch.rand(4, device="cuda")
    for value in range(3):
        x.fill_(value)
        torch.manual_seed(value)
        graph.replay()
        equal(y, torch.full((4,), float((value + 1) ** 2)))
        torch.manual_seed(value)
        equal(z, torch.rand(4, device="cuda").cpu())


@check("alone")
def sparse_products():
    sparse = (3 * torch.eye(64)).to_sparse_csr().cuda()
    equal((sparse @ sparse).to_dense(), 9 * torch.eye(64))


@check("alone")
def encoder():
    """The fused layers of an encoder in evaluation, which takes the padding away and gives zeros in its place."""
    torch.manual_seed(3)
    net = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 5, 32), torch.arange(5).expand(2, 5) >= torch.tensor([[5], [3]])
    with torch.no_grad():
        here = net(x, src_key_padding_mask=padding)
        torch.testing.assert_close(net.cuda()(x.cuda(), src_key_padding_mask=padding.cuda()).cpu(), here)
    assert (here[1, 3:] == 0).all(), "the padding"


@check("alone")
def grouped_products():
    """Products of groups of matrices; PyTorch has them on the CPU since 2.9."""
    if not hasattr(torch, "_grouped_mm"):
        return
    x, w = torch.randn(48, 64).bfloat16(), torch.randn(2, 32, 64).bfloat16()
    ends = torch.tensor([16, 48], dtype=torch.int32)
    there = torch._grouped_mm(x.cuda(), w.cuda().transpose(1, 2), offs=ends.cuda(), out_dtype=torch.bfloat16)
    torch.testing.assert_close(there.cpu().float(), torch.cat([x[:16].float() @ w[0].float().t(), x[16:].float() @ w[1].float().t()]), rtol=0.01, atol=0.01)


@check("alone")
def refusals():
    """What a kernel of the program's own would compute is an error, not a made-up result."""
    twice = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return __fadd_rn(x, x); }")
    try:
        twice(torch.ones(4, device="cuda")).cpu()
    except RuntimeError as error:
        assert re.search("kernel twice of torch.cuda.jiterator has no numbers", str(error)), error
    else:
        raise AssertionError("a kernel of the program's own has numbers")


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
        losses.append((step, rank, loss.item()))
    wanted, parameters = expected(size, 3)
    assert losses == [one for one in wanted if one[1] == rank], f"losses {losses}, on the CPU {wanted}"
    for one, other in zip(net.parameters(), parameters):
        equal(whole(one), other)


@check("ranks", "training")
def data_parallel():
    train(torch.nn.parallel.DistributedDataParallel(model().cuda()), lambda parameter: parameter)


@check("ranks")
def fully_sharded():
    """FSDP2."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # before 2.6
        from torch.distributed._composable.fsdp import fully_shard
    net = model().cuda()
    for layer in net:
        if list(layer.parameters()):
            fully_shard(layer)
    train(fully_shard(net) or net, lambda parameter: parameter.full_tensor())


def main(group, rank=-1, size=-1):
    if group != "alone":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
        dist.init_process_group("nccl", rank=rank, world_size=size)
    code = 0
    for function in CHECKS[group]:
        outcome = "passed"
        try:
            function()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            refused = "not supported" in str(error) or "no numbers" in str(error)
            outcome = f"{'refused' if refused else 'failed'}: {type(error).__name__} in line {last.lineno}: {str(error) or last.line}".split("\n")[0]
            code = 7 if refused else 1
        sys.stdout.write(f"check {function.__name__} {outcome}\n")
        sys.stdout.flush()
    if group != "alone":
        dist.destroy_process_group()
    return code


def spawned(rank, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    sys.exit(main("training", rank, size))


if __name__ == "__main__":
    group, *how = sys.argv[1:]
    if how:
        torch.multiprocessing.start_processes(spawned, (2, how[1]), 2, start_method=how[0])
    else:
        sys.exit(main(group))
