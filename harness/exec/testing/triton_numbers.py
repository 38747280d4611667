"""Kernels of Triton in mode math beside the same in double precision on the CPU: by hand, autotuned, and those of torch.compile with their gradients."""
import torch
import triton
import triton.language as tl
from torch.nn import functional as F
from triton.language.extra import libdevice

EPSILON = {torch.float32: 2.0 ** -24, torch.float16: 2.0 ** -11, torch.bfloat16: 2.0 ** -8}
compared = differ = 0


def compare(name, got, wanted, steps):
    """Each of `steps` roundings in a row makes half a unit in the last place of the largest element, or less."""
    global compared, differ
    wanted, compared = wanted.detach().double().cpu(), compared + 1
    worst = (got.detach().double().cpu() - wanted).abs().max().item()
    if not worst <= steps * EPSILON.get(got.dtype, 0) * wanted.abs().max().item():
        differ += 1
        print(f"{name} {got.dtype} differs by {worst}")


@triton.jit
def twice(x):
    return x * 2 + 1


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["count"],
                 do_bench=lambda call, quantiles: triton.testing.do_bench(call, warmup=1, rep=1, quantiles=quantiles))
@triton.jit
def pointwise(x, y, out, count, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    a, b = tl.load(x + at, there), tl.load(y + at, there, other=1.0)
    tl.store(out + at, twice(a * b) + libdevice.tanh(a.to(tl.float32)).to(a.dtype) - tl.abs(b) * scale, there)


@triton.jit
def rows(x, sums, highest, scanned, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, at < columns, other=0.0)
    tl.store(sums + row, tl.sum(value.to(tl.float32), 0))
    tl.store(highest + row, tl.max(value, 0))
    tl.store(scanned + row * columns + at, tl.cumsum(value, 0), at < columns)


@triton.jit
def product(a, b, out, M, N, K, BLOCK: tl.constexpr):
    m, n, k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for begin in range(0, K, BLOCK):
        left = tl.load(a + m[:, None] * K + (begin + k)[None, :], (m[:, None] < M) & ((begin + k)[None, :] < K), other=0.0)
        right = tl.load(b + (begin + k)[:, None] * N + n[None, :], ((begin + k)[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(out + m[:, None] * N + n[None, :], total.to(out.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def after(a, b, c, d):
    """x -> a x + b, and then x -> c x + d."""
    return a * c, b * c + d


@triton.jit
def composed(a, b, slopes, offsets, scanned, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pair = (tl.load(a + at), tl.load(b + at))
    slope, offset = tl.reduce(pair, 0, after)
    tl.store(slopes + row, slope)
    tl.store(offsets + row, offset)
    tl.store(scanned + at, tl.associative_scan(pair, 0, after)[1])


@triton.jit
def counted(classes, counts, number, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < number
    tl.atomic_add(counts + tl.load(classes + at, there, other=0), 1.0, there)


def by_hand(dtype):
    x, y = (torch.randn(1000, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(x)
    pointwise[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, 0.5)
    a, b = x.double(), y.double()
    compare("pointwise", out, 2 * a * b + 1 + a.tanh() - b.abs() * 0.5, 6)
    x = torch.randn(7, 50, device="cuda").to(dtype)
    sums, highest, scanned = torch.empty(7, device="cuda"), torch.empty(7, device="cuda", dtype=dtype), torch.empty_like(x)
    rows[(7,)](x, sums, highest, scanned, 50, BLOCK=64)
    compare("sum", sums, x.double().sum(1), 50)
    compare("max", highest, x.double().max(1).values, 0)
    compare("cumsum", scanned, x.double().cumsum(1), 50)
    a, b = torch.randn(40, 70, device="cuda").to(dtype), torch.randn(70, 33, device="cuda").to(dtype)
    out = torch.empty(40, 33, device="cuda", dtype=dtype)
    product[(3, 3)](a, b, out, 40, 33, 70, BLOCK=16)
    compare("dot", out, a.double() @ b.double(), 2 if dtype != torch.float32 else 70)


def of_fp8():
    a, b = (torch.randn(32, 32, device="cuda").to(kind) for kind in (torch.float8_e4m3fn, torch.float8_e5m2))
    for kind in (torch.float8_e4m3fn, torch.float8_e5m2):
        out, left, right = torch.empty(32, 32, device="cuda"), a.float().to(kind), b.float().to(kind)
        product[(1, 1)](left, right, out, 32, 32, 32, BLOCK=32)
        compare("dot of fp8", out, left.double() @ right.double(), 32)
        narrow = torch.empty(32, 32, device="cuda", dtype=kind)
        product[(1, 1)](left, right, narrow, 32, 32, 32, BLOCK=32)
        compare("fp8", narrow.float(), (left.double() @ right.double()).float().to(kind).double(), 0)


def of_functions():
    """Reductions and scans by functions of the kernel's own, which need not commute."""
    a, b = torch.rand(5, 32, device="cuda") + 0.5, torch.randn(5, 32, device="cuda")
    slopes, offsets, scanned = torch.empty(5, device="cuda"), torch.empty(5, device="cuda"), torch.empty(5, 32, device="cuda")
    composed[(5,)](a, b, slopes, offsets, scanned, BLOCK=32)
    each, wanted = torch.zeros(5, dtype=torch.double), []
    for slope, offset in zip(a.double().cpu().unbind(1), b.double().cpu().unbind(1)):
        each = slope * each + offset
        wanted.append(each)
    compare("slopes", slopes, a.double().prod(1), 64)
    compare("offsets", offsets, each, 64)
    compare("scanned", scanned, torch.stack(wanted, 1), 64)
    x = torch.randn(9, 50, device="cuda")
    x[3, 7] = float("nan")
    extremes = lambda x: (x.argmax(-1), x.argmin(-1), x.amax(-1), x.amin(-1), (x > 2).any(-1))  # noqa: E731
    torch._dynamo.reset()
    for got, right in zip(torch.compile(extremes)(x), extremes(x.cpu())):
        compare("extremes", got.nan_to_num(9), right.nan_to_num(9), 0)


def compiled():
    new = lambda *shape: torch.randn(*shape, device="cuda", requires_grad=True)  # noqa: E731
    cases = {"pointwise": (lambda x, y: F.gelu(x * y + 1) + torch.erf(x) - torch.sin(y).exp() + torch.log1p(x * x), (new(64, 40), new(64, 40))),
             "softmax": (lambda x: x.softmax(-1) * x, (new(32, 100),)),
             "layer norm": (lambda x, w: F.layer_norm(x, (3000,), w).square(), (new(4, 3000), new(3000))),
             "loss": (lambda x: F.cross_entropy(x, torch.arange(16, device=x.device)), (new(16, 50),)),
             "scan": (lambda x: x.cumsum(-1).tanh(), (new(16, 50),)),
             "linear": (lambda x, w: F.silu(x @ w).sum(0), (new(32, 64), new(64, 16))),
             "pooling": (lambda x: F.avg_pool2d(F.interpolate(x, scale_factor=2.0, mode="bilinear"), 3).square(), (new(1, 2, 8, 8),))}
    for name, (function, inputs) in cases.items():
        torch._dynamo.reset()
        results = torch.compile(function)(*inputs)
        exact = [each.detach().cpu().double().requires_grad_() for each in inputs]
        wanted = function(*exact)
        weights = torch.linspace(-1, 1, results.numel(), dtype=torch.double).view(results.shape)
        compare(name, results, wanted, 64)
        for got, right in zip(torch.autograd.grad((results * weights.to("cuda", torch.float32)).sum(), inputs), torch.autograd.grad((wanted * weights).sum(), exact)):
            compare(name + ", gradient", got, right, 512)


torch.manual_seed(0)
for each in EPSILON:
    by_hand(each)
of_fp8()
classes = torch.randint(0, 5, (1000,), device="cuda")
counts = torch.zeros(5, device="cuda")
counted[(8,)](classes, counts, 1000, BLOCK=128)
compare("atomic_add", counts, classes.cpu().bincount(minlength=5), 0)
of_functions()
compiled()
kept = (torch.compile(lambda x: F.dropout(x, 0.25))(torch.ones(100000, device="cuda")) != 0).float().mean().item()
print(f"{compared} compared, {differ} differ, dropout keeps {kept:.2f}")
