"""A program of ci/wheels and of the tests: what people use first of PyTorch, on the virtual platform. `wheel.py GROUP [math|known] [--after CHECK]`, with
the groups alone, attention, compiled; and with RANK and WORLD_SIZE ranks, absent (one rank of two, without its partner) and training. In mode math
results are compared with the CPU's; in mode known most numbers are not known, and the memory is the same. Prints two lines a check: "begin NAME", and "check NAME OUTCOME":
passed with the highest bytes allocated and reserved, or absent (this release or this environment does not have it), refused or failed, with the reason.
`wheel.py training math spawn|fork PORT` starts two ranks itself. `wheel.py program NAME` trains a network of PROGRAMS for three steps, and
prints what it holds at its end, by kind: "holds KIND BYTES"."""
import contextlib
import gc
import os
import re
import sys
import tempfile
import time
import traceback
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F

MIB = 1 << 20
CHECKS = {"alone": [], "attention": [], "compiled": [], "ranks": [], "absent": [], "training": []}
RELEASE = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
NUMBERS = True  # mode math: results are there to be compared


class Absent(Exception):
    """What the release or the environment does not have."""


def check(*groups):
    def add(function):
        for group in groups:
            CHECKS[group].append(function)
        return function
    return add


def since(*release):
    if RELEASE < release:
        raise Absent(f"since torch {'.'.join(map(str, release))}")


def equal(one, other):
    if NUMBERS:
        assert torch.equal(one.detach().cpu(), other.detach().cpu()), f"{one} is not {other}"


def close(one, other, digits=5):
    """Within 10^-digits of the largest value: sums are in another order than the CPU's."""
    if NUMBERS:
        other = other.detach().float()
        difference = (one.detach().cpu().float() - other).abs().max().item()
        assert difference <= 10.0 ** -digits * max(other.abs().max().item(), 1), f"off by {difference}"


def trains(make, draw, optimizer=None, steps=2, digits=None):
    """Steps on the device, and the same on the CPU: the parameters are compared."""
    results = []
    for device in ("cuda", "cpu") if NUMBERS and digits is not None else ("cuda",):
        torch.manual_seed(0)
        net = make().to(device)
        update = (optimizer or (lambda parameters: torch.optim.SGD(parameters, 0.125)))(net.parameters())
        for step in range(steps):
            loss = net(draw(step).to(device)).square().mean()
            update.zero_grad()
            loss.backward()
            update.step()
        results.append([p.detach() for p in net.parameters()])
    for one, other in zip(results[0], results[-1]):
        if digits is not None:
            close(one, other, digits)


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
            losses.append(loss.item() if NUMBERS else None)
        results.append((losses, [p.detach().cpu() for p in net.parameters()]))
    assert not NUMBERS or results[0][0] == results[1][0], f"losses {results[0][0]}, on the CPU {results[1][0]}"
    for one, other in zip(results[0][1], results[1][1]):
        equal(one, other)


@check("alone")
def operators():
    torch.manual_seed(1)
    x = torch.randn(4, 6, 8)
    for function in (lambda t: F.layer_norm(t, (8,)), lambda t: t.softmax(-1), lambda t: t @ t.transpose(1, 2), lambda t: t.cumsum(0),
                     lambda t: t.topk(3).indices, lambda t: F.embedding(torch.arange(4, device=t.device), t[0])):
        equal(function(x.cuda()), function(x))


@check("alone")
def mixed_settings():
    """Settings of before PyTorch 2.9 beside newer ones: the host code of a product takes the newer ones."""
    torch.set_float32_matmul_precision("highest")
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        raise Absent("since torch 2.9")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    there, exact = (a.cuda() @ b.cuda()).cpu(), a @ b
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert not NUMBERS or 0 < (there - exact).abs().max() < 0.05, "rounded as TF32 is"
    equal(a.cuda() @ b.cuda(), exact)


@check("alone")
def sizes_by_values():
    if not NUMBERS:
        raise Absent("in mode known: these sizes are values")
    x = torch.randn(4, 6, 8)
    for function in (lambda t: (t > 0).nonzero(), lambda t: t[t > 0].sort().values, lambda t: t.round().unique()):
        equal(function(x.cuda()), function(x))


Backend = torch.nn.attention.SDPBackend
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def attend(dtype, shape=(2, 4, 128, 64), keys=None, backend=None, **options):
    """Forward and backward of scaled_dot_product_attention, by one backend or by PyTorch's choice."""
    torch.manual_seed(2)
    here = [torch.randn(shape), *(torch.randn(keys or shape) for _ in range(2))]
    there = [t.to("cuda", dtype).requires_grad_() for t in here]
    with torch.nn.attention.sdpa_kernel(backend) if backend else contextlib.nullcontext():
        try:
            out = F.scaled_dot_product_attention(*there, **{k: v.cuda().to(v.dtype if v.dtype == torch.bool else dtype) if isinstance(v, torch.Tensor) else v
                                                            for k, v in options.items()})
        except RuntimeError as error:
            if "No available kernel" not in str(error):
                raise
            raise Absent("PyTorch has no kernel of this backend for these tensors on this GPU") from error
    out.float().square().sum().backward()
    assert all(t.grad.shape == t.shape for t in there)
    if not options.get("dropout_p"):
        close(out, F.scaled_dot_product_attention(*here, **options), 4 if dtype == FP32 else 1.5)


@check("alone", "attention")
def attention_by_default():
    for dtype in FP32, BF16, FP16:
        attend(dtype)
        attend(dtype, is_causal=True)
        attend(dtype, (1, 2, 16, 8))
        attend(dtype, (2, 4, 100, 64))
        attend(dtype, (1, 4, 1, 64), (1, 4, 77, 64))
        attend(dtype, dropout_p=0.25)


@check("alone", "attention")
def attention_with_masks():
    for dtype in FP32, BF16:
        attend(dtype, attn_mask=torch.ones(128, 128, dtype=torch.bool).tril())
        attend(dtype, attn_mask=torch.linspace(-1, 1, 128 * 128).reshape(128, 128))


@check("alone", "attention")
def attention_of_groups():
    since(2, 5)
    for dtype in FP32, BF16:
        attend(dtype, (2, 8, 64, 64), (2, 2, 64, 64), enable_gqa=True)


@check("alone", "attention")
def attention_flash():
    for dtype in BF16, FP16:
        attend(dtype, backend=Backend.FLASH_ATTENTION, is_causal=True)
        attend(dtype, backend=Backend.FLASH_ATTENTION, dropout_p=0.25)


@check("alone", "attention")
def attention_efficient():
    for dtype in FP32, BF16, FP16:
        attend(dtype, backend=Backend.EFFICIENT_ATTENTION)
        attend(dtype, backend=Backend.EFFICIENT_ATTENTION, dropout_p=0.25)


@check("alone", "attention")
def attention_cudnn():
    since(2, 5)
    for dtype in BF16, FP16:
        attend(dtype, backend=Backend.CUDNN_ATTENTION)
        attend(dtype, backend=Backend.CUDNN_ATTENTION, is_causal=True)
        attend(dtype, backend=Backend.CUDNN_ATTENTION, dropout_p=0.25)


@check("alone", "attention")
def attention_composed():
    for dtype in FP32, BF16:
        attend(dtype, backend=Backend.MATH, is_causal=True)


@check("alone")
def attention_of_sequences():
    """Sequences of three lengths in one nested tensor."""
    parts = [torch.randn(n, 4, 64) for n in (5, 17, 9)]
    q = torch.nested.nested_tensor(parts, layout=torch.jagged, device="cuda", dtype=BF16).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, q, q)
    assert out.shape[0] == 3 and out.shape[3] == 64


@check("alone")
def attention_drops_the_same():
    """With the identity as values the output is the probabilities that dropout has left, and the backward must take the same ones."""
    torch.manual_seed(2)
    for dtype, backend in (BF16, Backend.FLASH_ATTENTION), (FP32, Backend.EFFICIENT_ATTENTION):
        q, k, grad = (torch.randn(1, 2, 16, 16, device="cuda", dtype=dtype) for _ in range(3))
        v = torch.eye(16, device="cuda", dtype=dtype).expand(1, 2, 16, 16).clone().requires_grad_()
        with torch.nn.attention.sdpa_kernel(backend):
            left = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
        left.backward(grad)
        if NUMBERS:
            assert 0.1 < (left == 0).float().mean().item() < 0.4
            torch.testing.assert_close(v.grad.float(), left.float().transpose(2, 3) @ grad.float(), rtol=0.02, atol=0.05)  # of bf16


@check("alone")
def attention_flex():
    since(2, 5)
    from torch.nn.attention.flex_attention import flex_attention
    q, k, v = (torch.randn(1, 2, 128, 16) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is slow without compilation
        out = flex_attention(q.cuda(), k.cuda(), v.cuda(), score_mod=lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf")))
    close(out, F.scaled_dot_product_attention(q, k, v, is_causal=True), 4)


def convolve(make, sizes, dtype=FP32, layout=torch.contiguous_format):
    """Forward and backward of a layer, against the CPU's in float."""
    torch.manual_seed(4)
    layer, x = make(), torch.randn(sizes)
    import copy
    there = copy.deepcopy(layer).to("cuda", dtype, memory_format=layout)
    y = there(x.to("cuda", dtype).contiguous(memory_format=layout).requires_grad_())
    y.float().square().sum().backward()
    assert all(p.grad.shape == p.shape for p in there.parameters())
    close(y, layer(x), 4 if dtype == FP32 else 1.5)


LAYERS = [(lambda: torch.nn.Conv1d(8, 16, 3), (2, 8, 20)), (lambda: torch.nn.Conv2d(3, 16, 3, padding=1), (2, 3, 16, 16)),
          (lambda: torch.nn.Conv2d(16, 16, 3, stride=2, dilation=2, bias=False), (2, 16, 17, 17)), (lambda: torch.nn.Conv2d(16, 64, 1), (2, 16, 8, 8)),
          (lambda: torch.nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), (2, 16, 8, 8)), (lambda: torch.nn.Conv2d(16, 32, 3, groups=4), (2, 16, 8, 8)),
          (lambda: torch.nn.ConvTranspose2d(16, 8, 2, stride=2), (2, 16, 8, 8)), (lambda: torch.nn.Conv3d(3, 8, 3), (1, 3, 8, 8, 8))]


@check("alone")
def convolutions():
    torch.backends.cudnn.allow_tf32 = False
    for make, sizes in LAYERS:
        for dtype in FP32, BF16, FP16:
            convolve(make, sizes, dtype)
    torch.backends.cudnn.allow_tf32 = True


@check("alone")
def convolutions_channels_last():
    torch.backends.cudnn.allow_tf32 = False
    for make, sizes in LAYERS:
        if len(sizes) == 4:
            convolve(make, sizes, FP32, torch.channels_last)
            convolve(make, sizes, FP16, torch.channels_last)
    torch.backends.cudnn.allow_tf32 = True


@check("alone")
def convolutions_benchmark():
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    for make, sizes in LAYERS[1:4]:
        convolve(make, sizes)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = False, True


@check("alone")
def convolutions_autocast():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.ConvTranspose2d(16, 8, 2), torch.nn.Conv2d(8, 8, 3, groups=8))
    net = net.cuda().to(memory_format=torch.channels_last)
    with torch.autocast("cuda", BF16):
        y = net(torch.randn(2, 3, 16, 16, device="cuda"))
    y.float().sum().backward()
    assert y.dtype == BF16


@check("alone")
def norms():
    for make, sizes in ((lambda: torch.nn.BatchNorm1d(24), (8, 24)), (lambda: torch.nn.BatchNorm2d(8), (4, 8, 6, 6)), (lambda: torch.nn.GroupNorm(2, 8), (4, 8, 6, 6)),
                        (lambda: torch.nn.LayerNorm(24), (8, 24)), (lambda: torch.nn.InstanceNorm2d(8, affine=True), (4, 8, 6, 6)), (lambda: torch.nn.RMSNorm(24), (8, 24))):
        trains(make, lambda step, sizes=sizes: torch.randn(sizes, generator=torch.Generator().manual_seed(step)), digits=4)
    norm, x = torch.nn.BatchNorm2d(8).eval(), torch.randn(4, 8, 6, 6)
    close(norm.cuda()(x.cuda()), torch.nn.BatchNorm2d(8).eval()(x))


@check("alone")
def recurrent_networks():
    for kind in torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN:
        for options in {}, {"bidirectional": True, "num_layers": 2}:
            torch.manual_seed(5)
            net, x = kind(6, 8, batch_first=True, **options), torch.randn(3, 7, 6)
            here = net(x)[0]
            there = net.cuda()(x.cuda())[0]
            there.square().sum().backward()
            close(there, here, 2.5)  # TF32 is on for recurrent networks


@check("alone")
def embeddings():
    table, rows = torch.randn(32, 16), torch.tensor([[1, 5, 5], [31, 0, 2]])
    for sparse in False, True:
        weight = table.cuda().requires_grad_()
        F.embedding(rows.cuda(), weight, sparse=sparse).square().sum().backward()
        here = table.clone().requires_grad_()
        F.embedding(rows, here).square().sum().backward()
        close(weight.grad.to_dense() if sparse else weight.grad, here.grad)
    close(F.embedding_bag(rows.cuda(), table.cuda(), mode="mean"), F.embedding_bag(rows, table, mode="mean"))


@check("alone")
def losses():
    x, classes, other = torch.randn(8, 10), torch.arange(8), torch.rand(8, 10)
    for function in (lambda a, b, c: F.cross_entropy(a, b, label_smoothing=0.1), lambda a, b, c: F.nll_loss(a.log_softmax(1), b), lambda a, b, c: F.mse_loss(a, c),
                     lambda a, b, c: F.smooth_l1_loss(a, c), lambda a, b, c: F.binary_cross_entropy_with_logits(a, c), lambda a, b, c: F.kl_div(a.log_softmax(1), c.softmax(1)),
                     lambda a, b, c: F.cosine_embedding_loss(a, c, torch.ones(8, device=a.device)), lambda a, b, c: F.multi_margin_loss(a, b)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            there, here = x.cuda().requires_grad_(), x.clone().requires_grad_()
            one, two = function(there, classes.cuda(), other.cuda()), function(here, classes, other)
        one.backward(), two.backward()
        close(one, two), close(there.grad, here.grad)


def optimizer_steps(**options):
    for name in "SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop", "Adafactor":
        kind = getattr(torch.optim, name, None)
        import inspect
        if kind and not set(options) - set(inspect.signature(kind).parameters):
            try:
                trains(model, lambda step: batch(0, step), lambda parameters, kind=kind: kind(parameters, lr=0.01, **options), digits=4)
            except RuntimeError as error:
                if not re.search("does not support|fused=True` requires", str(error)):
                    raise  # PyTorch has no such steps of this optimizer for CUDA


@check("alone")
def optimizers():
    optimizer_steps()


@check("alone")
def optimizers_foreach():
    optimizer_steps(foreach=True)


@check("alone")
def optimizers_fused():
    optimizer_steps(fused=True)


@check("alone")
def optimizer_of_8_bits():
    try:
        import bitsandbytes
    except ImportError as error:
        raise Absent(f"no bitsandbytes: {error}".split("\n")[0]) from error
    net = torch.nn.Linear(128, 64).cuda()  # below 4,096 elements states stay in 32 bits
    optimizer = bitsandbytes.optim.AdamW8bit(net.parameters())
    net(torch.randn(8, 128, device="cuda")).square().mean().backward()
    try:
        optimizer.step()
    except (AttributeError, RuntimeError) as error:
        if not re.search("cextension|native library|CUDA binary|CUDA version", str(error)):
            raise
        raise Absent("bitsandbytes has no library for this CUDA") from error
    state = optimizer.state[net.weight]["state1"]
    assert state.dtype == torch.uint8 and state.numel() == net.weight.numel(), f"{state.dtype} of {state.numel()}"


@check("alone")
def mixed_precision():
    for dtype in BF16, FP16:
        net = model().cuda()
        optimizer, scaler = torch.optim.AdamW(net.parameters(), 0.01), torch.amp.GradScaler("cuda", enabled=dtype == FP16)
        for step in range(2):
            with torch.autocast("cuda", dtype):
                y = net(batch(0, step).cuda())
                loss = y.float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert y.dtype == dtype


@check("alone")
def checkpointing():
    from torch.utils.checkpoint import checkpoint
    net, x = model().cuda(), batch(0, 0).cuda().requires_grad_()
    net(x).square().mean().backward()
    wanted = [p.grad.clone() for p in net.parameters()]
    for reentrant in False, True:
        net.zero_grad()
        checkpoint(net, x, use_reentrant=reentrant).square().mean().backward()
        for p, grad in zip(net.parameters(), wanted):
            equal(p.grad, grad)


@check("alone")
def loading():
    """A loader with a worker and pinned batches; a checkpoint written and read."""
    data = torch.utils.data.TensorDataset(torch.arange(48.0).reshape(16, 3))
    net = torch.nn.Linear(3, 4).cuda()
    for (rows,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True):
        net(rows.cuda(non_blocking=True)).sum().backward()
    with tempfile.NamedTemporaryFile() as file:
        torch.save(net.state_dict(), file.name)
        state = torch.load(file.name, map_location="cuda")
    equal(state["weight"], net.weight)
    net.load_state_dict(state)


@check("alone")
def linear_algebra():
    a = torch.eye(16) * 3 + torch.ones(16, 16)
    for function in torch.linalg.inv, torch.linalg.cholesky, torch.linalg.svdvals, torch.linalg.eigvalsh, torch.linalg.det, torch.fft.rfft2:
        there, here = function(a.cuda()), function(a)
        close(*(torch.view_as_real(t) if t.is_complex() else t for t in (there, here)), 3)


@check("alone")
def grad_scaler():
    """A loss that overflows is skipped, and halves the scale."""
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    weight = torch.ones(4, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not NUMBERS or (scaler.get_scale() == 2.0 and weight.tolist() == [1.0] * 4)


@check("alone")
def snapshot():
    """A snapshot has the segment and the allocation; another is written where WHEEL_SNAPSHOT says so, for a reader of this file."""
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(max_entries=100)
    tensor = torch.empty(7 * MIB, dtype=torch.uint8, device="cuda")
    recorded = torch.cuda.memory._snapshot()
    if os.environ.get("WHEEL_SNAPSHOT"):
        torch.cuda.memory._dump_snapshot(os.environ["WHEEL_SNAPSHOT"])
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
    if not NUMBERS:
        raise Absent("in mode known: the number of entries of a product is a value")
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
        close(net.cuda()(x.cuda(), src_key_padding_mask=padding.cuda()), here, 4)
    assert (here[1, 3:] == 0).all(), "the padding"
    equal(padding.cuda(), padding)


@check("alone")
def grouped_products():
    """Products of groups of matrices; PyTorch has them on the CPU since 2.9."""
    since(2, 9)
    x, w = torch.randn(48, 64).bfloat16(), torch.randn(2, 32, 64).bfloat16()
    ends = torch.tensor([16, 48], dtype=torch.int32)
    there = torch._grouped_mm(x.cuda(), w.cuda().transpose(1, 2), offs=ends.cuda(), out_dtype=torch.bfloat16)
    close(there, torch.cat([x[:16].float() @ w[0].float().t(), x[16:].float() @ w[1].float().t()]), 1.5)


@check("alone")
def refusals():
    """What a kernel of the program's own would compute is an error, not a made-up result."""
    if not NUMBERS:
        raise Absent("in mode known nothing is computed")
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
        losses.append((step, rank, loss.item() if NUMBERS else None))
    if not NUMBERS:
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


@check("ranks", "absent")
def device_mesh():
    from torch.distributed.tensor import Shard, distribute_tensor
    whole = torch.arange(16.0).reshape(4, 4)
    part = distribute_tensor(whole.cuda(), mesh(), [Shard(0)])
    assert part.to_local().shape == (4 // dist.get_world_size(), 4)
    full = part.full_tensor()
    if CHECKS["now"] == "ranks":
        equal(full, whole)


@check("ranks", "absent")
def tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    net = parallelize_module(model().cuda(), mesh("tp"), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    out = net(batch(0, 0).cuda())
    out.square().mean().backward()
    if CHECKS["now"] == "ranks":
        close(out, model()(batch(0, 0)), 4)


@check("ranks", "absent")
def sequence_parallel():
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
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


@contextlib.contextmanager
def compiler():
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise Absent("no triton") from error
    yield
    torch._dynamo.reset()


@check("compiled")
def compiled():
    with compiler():
        net, x = model().cuda(), batch(0, 0).cuda()
        wanted = model().cuda()(x)
        net = torch.compile(net)
        for _ in range(2):
            out = net(x)
            out.square().mean().backward()
        close(out, wanted.cpu(), 2.5)


@check("compiled")
def compiled_to_graphs():
    with compiler(), torch.no_grad():
        net = torch.compile(model().cuda(), mode="reduce-overhead")
        for step in range(4):
            out = net(batch(0, step).cuda()).clone()
        assert out.shape == (8, 8)


@check("compiled")
def compiled_and_tuned():
    with compiler():
        if NUMBERS:
            raise Absent("in mode math: kernels that Inductor launches to tune have no numbers")
        torch._inductor.config.max_autotune_gemm_backends = "TRITON"
        a, b = (torch.randn(128, 128, device="cuda", dtype=BF16) for _ in range(2))
        out = torch.compile(lambda a, b: a @ b, mode="max-autotune-no-cudagraphs")(a, b)
        assert out.shape == (128, 128)


@check("compiled")
def compiled_flex_attention():
    since(2, 5)
    with compiler():
        from torch.nn.attention.flex_attention import flex_attention
        q = torch.randn(1, 2, 128, 16, device="cuda", requires_grad=True)
        torch.compile(flex_attention)(q, q, q).sum().backward()
        assert q.grad.shape == q.shape


@check("compiled")
def kernels_of_64_kib():
    """A kernel of Triton whose shared memory is above what every GPU has without asking."""
    with compiler():
        import triton_kernel  # beside this file: Triton reads the source of its kernels
        assert triton_kernel.product(128, stages=2) > 49152


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Conv2d(width, width, 3, padding=1, bias=False), torch.nn.BatchNorm2d(width), torch.nn.ReLU())

    def forward(self, x):
        return x + self.inner(x)


class Recomputed(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)


def layers(width=64):
    return [torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(2)]


def sharded(net):
    shard = fully_shard()
    for layer in net:
        shard(layer)
    return shard(net) or net


PROGRAMS = {  # the network, the sizes of a batch, and whether it runs on ranks
    "perceptron": (lambda: torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)), (32, 256), False),
    "residual": (lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), Residual(32), Residual(32)), (4, 3, 16, 16), False),
    "transformer": (lambda: torch.nn.Sequential(*layers()), (4, 32, 64), False),
    "checkpointed": (lambda: torch.nn.Sequential(*(Recomputed(layer) for layer in layers())), (4, 32, 64), False),
    "data_parallel": (lambda: torch.nn.Sequential(*layers()), (4, 32, 64), True),
    "fully_sharded": (lambda: torch.nn.Sequential(*layers()), (4, 32, 64), True),
}


def storages(tensors):
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors if t is not None]
    kept = {s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in local if t.device.type == "cuda")}
    return sum(kept.values())


KEPT = []  # until the end of the process


def program(name):
    make, sizes, ranks = PROGRAMS[name]
    if ranks:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    net = make().cuda()
    net = torch.nn.parallel.DistributedDataParallel(net) if name == "data_parallel" else sharded(net) if ranks else net
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    KEPT.extend([net, optimizer])
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(sizes, device="cuda")).square().mean().backward()
        optimizer.step()
    state = [t for one in optimizer.state.values() for t in one.values() if isinstance(t, torch.Tensor)]
    for kind, tensors in (("parameters", net.parameters()), ("gradients", [p.grad for p in net.parameters()]), ("optimizer state", state)):
        print("holds", kind, storages(list(tensors)), flush=True)
    if ranks:
        dist.destroy_process_group()


def run(function):
    """(outcome, the exit code that it leads to)"""
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        function()
    except Absent as error:
        return f"absent: {error}", 0
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        refused = "not supported" in str(error) or "no numbers" in str(error)
        return f"{'refused' if refused else 'failed'}: {type(error).__name__} in line {last.lineno}: {str(error) or last.line}".split("\n")[0], 7 if refused else 1
    return f"passed {torch.cuda.max_memory_allocated()} {torch.cuda.max_memory_reserved()}", 0


def main(group, after="", rank=-1, size=-1):
    CHECKS["now"] = group
    names = [function.__name__ for function in CHECKS[group]]
    alone = group in ("alone", "attention", "compiled")
    if not alone:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
        dist.init_process_group("nccl", rank=rank, world_size=size)
    codes = [0]
    for function in CHECKS[group][names.index(after) + 1 if after else 0:]:
        sys.stdout.write(f"begin {function.__name__}\n")
        sys.stdout.flush()
        outcome, code = run(function)
        codes.append(code)
        sys.stdout.write(f"check {function.__name__} {outcome}\n")
        sys.stdout.flush()
    if not alone:
        dist.destroy_process_group()
    return 1 if 1 in codes else max(codes)


def spawned(rank, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    sys.exit(main("training", "", rank, size))


if __name__ == "__main__":
    group, *how = sys.argv[1:]
    if group == "program":
        sys.exit(program(how[0]))
    if how[:1] in (["math"], ["known"]):
        NUMBERS = how.pop(0) == "math"
    if how[:1] in (["spawn"], ["fork"]):
        torch.multiprocessing.start_processes(spawned, (2, how[1]), 2, start_method=how[0])
    else:
        sys.exit(main(group, how[1] if how[:1] == ["--after"] else ""))
