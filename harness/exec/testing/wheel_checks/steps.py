"""Training steps: optimizers, mixed precision, checkpointing; operators by themselves."""
import inspect
import re

import torch
import torch.nn.functional as F
from wheel_checks.registry import BF16, FP16, Absent, Mode, batch, check, close, equal, model, since, trains


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
            losses.append(loss.item() if Mode.numbers else None)
        results.append((losses, [p.detach().cpu() for p in net.parameters()]))
    assert not Mode.numbers or results[0][0] == results[1][0], f"losses {results[0][0]}, on the CPU {results[1][0]}"
    for one, other in zip(results[0][1], results[1][1]):
        equal(one, other)


def optimizer_steps(**options):
    for name in "SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop", "Adafactor":
        kind = getattr(torch.optim, name, None)
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
def grad_scaler():
    """A loss that overflows is skipped, and halves the scale."""
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    weight = torch.ones(4, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not Mode.numbers or (scaler.get_scale() == 2.0 and weight.tolist() == [1.0] * 4)


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
def operators():
    torch.manual_seed(1)
    x = torch.randn(4, 6, 8)
    for function in (lambda t: F.layer_norm(t, (8,)), lambda t: t.softmax(-1), lambda t: t @ t.transpose(1, 2), lambda t: t.cumsum(0),
                     lambda t: t.topk(3).indices, lambda t: F.embedding(torch.arange(4, device=t.device), t[0])):
        equal(function(x.cuda()), function(x))


@check("alone")
def sizes_by_values():
    if not Mode.numbers:
        raise Absent("in mode known: these sizes are values")
    x = torch.randn(4, 6, 8)
    for function in (lambda t: (t > 0).nonzero(), lambda t: t[t > 0].sort().values, lambda t: t.round().unique()):
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
    assert not Mode.numbers or 0 < (there - exact).abs().max() < 0.05, "rounded as TF32 is"
    equal(a.cuda() @ b.cuda(), exact)


@check("alone")
def linear_algebra():
    a = torch.eye(16) * 3 + torch.ones(16, 16)
    for function in torch.linalg.inv, torch.linalg.cholesky, torch.linalg.svdvals, torch.linalg.eigvalsh, torch.linalg.det, torch.fft.rfft2:
        there, here = function(a.cuda()), function(a)
        close(*(torch.view_as_real(t) if t.is_complex() else t for t in (there, here)), 3)


@check("alone")
def sparse_products():
    if not Mode.numbers:
        raise Absent("in mode known: the number of entries of a product is a value")
    sparse = (3 * torch.eye(64)).to_sparse_csr().cuda()
    equal((sparse @ sparse).to_dense(), 9 * torch.eye(64))


@check("alone")
def grouped_products():
    """Products of groups of matrices; PyTorch has them on the CPU since 2.9."""
    since(2, 9)
    x, w = torch.randn(48, 64).bfloat16(), torch.randn(2, 32, 64).bfloat16()
    ends = torch.tensor([16, 48], dtype=torch.int32)
    there = torch._grouped_mm(x.cuda(), w.cuda().transpose(1, 2), offs=ends.cuda(), out_dtype=torch.bfloat16)
    close(there, torch.cat([x[:16].float() @ w[0].float().t(), x[16:].float() @ w[1].float().t()]), 1.5)
