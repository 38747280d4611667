"""Kernels that PyTorch compiles from C++ while a program runs."""
from testing.said import python

OWN = """code = "template <typename T> T blend(T x, T y, T alpha) {{ return alpha * x + y; }}"
blend = torch.cuda.jiterator._create_jit_fn(code, alpha=1.0)
two = torch.cuda.jiterator._create_multi_output_jit_fn("template <typename T> void two(T x, T& a, T& b) {{ a = x + 1; b = 2 * x; }}", 2)
x, y = torch.ones(1000, 1, device='cuda'), torch.ones(1, 700, device='cuda', dtype={type})
before = torch.cuda.memory_stats()['requested_bytes.all.allocated']
z = blend(x, y, alpha=2.0)
a, b = two(x)
print(z.dtype, z.shape, a.shape, torch.cuda.memory_stats()['requested_bytes.all.allocated'] - before)
"""


def test_own():
    """A program's kernel allocates what it returns, and nothing else."""
    for mode in "known", "shapes", "math":
        for type, bytes in ("torch.float64", 8), ("torch.float16", 4):
            result = python(OWN.format(type=type), "--mode", mode).ends(0)
            name = {8: "torch.float64", 4: "torch.float32"}[bytes]
            result.check(result.out == f"{name} torch.Size([1000, 700]) torch.Size([1000, 1]) {1000 * 700 * bytes + 2 * 1000 * 4}\n", result.out)
    unknown = OWN.format(type="torch.float32") + "print(bool(z.sum() > 1))"
    python(unknown, "--mode", "known").ends(0, "control flow depended on values that are not known")


NUMBERS = """torch.set_default_device("cuda")
code = "template <typename T> T inner(T x, T y) { return ::sin(x) + std::cos(y); }  template <typename T> T least(T x, T y, T most) { return ::min(most, inner(x, y)); }"
least = torch.cuda.jiterator._create_jit_fn(code, most=0.0)
two = torch.cuda.jiterator._create_multi_output_jit_fn("template <typename T> void two(T x, T& a, T& b) { a = x + 1; b = 2 * x; }", 2)
norm = torch.cuda.jiterator._create_jit_fn("template <typename T> T norm(T x) { return x * std::conj(x); }")
times = torch.cuda.jiterator._create_jit_fn("template <typename T> T times(T x, int64_t n, bool really) { return really ? x * static_cast<T>(n) : x; }", n=1, really=False)
x, y = torch.randn(300, 1), torch.randn(1, 70)
for kind in torch.float32, torch.float64, torch.float16, torch.bfloat16:
    a, b = x.to(kind), y.to(kind)
    z = least(a, b, most=0.3)
    exact = (a.double().sin() + b.double().cos()).clamp(max=0.3)
    print(z.dtype == kind, torch.allclose(z.double(), exact, atol=4 * torch.finfo(kind).eps, rtol=0))
    print(torch.equal(least(a, b, most=0.3)[:, 0], least(a.squeeze(1), b[0, 0].expand(300), most=0.3)))
mixed = least(x.half(), y.t()[:, 0].double().view(1, 70))
print(mixed.dtype == torch.float64, torch.allclose(mixed, (x.half().double().sin() + y.double().cos()).clamp(max=0), atol=1e-12))
integers = torch.arange(12).view(3, 4).t()
a, b = two(integers)
print(torch.equal(a, integers + 1), torch.equal(b, 2 * integers), a.dtype == torch.int64)
c = torch.randn(5, dtype=torch.complex64)
print(torch.allclose(norm(c), c * c.conj()), torch.equal(times(x, n=3, really=True), 3 * x), norm(torch.empty(0)).shape == (0,))
"""


# night: compares every kernel with PyTorch's; exec_jiterator_own has two by day
def test_numbers():
    """A program's kernels are compiled for the host, with PyTorch's types; those with anything else of CUDA's are refused by name."""
    result = python(NUMBERS, "--mode", "math").ends(0)
    result.check(result.out.count("True") == 20 and "False" not in result.out, result.out)
    device = "torch.cuda.jiterator._create_jit_fn('template <typename T> T mine(T x) { return __fadd_rn(x, threadIdx.x); }')(torch.ones(4, device='cuda'))"
    python(device, "--mode", "math").ends(1, "kernel mine of torch.cuda.jiterator has no numbers in mode math")
    captured = """mine = torch.cuda.jiterator._create_jit_fn('template <typename T> T mine(T x) { return x + 1; }')
x, graph = torch.ones(4, device='cuda'), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    mine(x)"""
    python(captured, "--mode", "math").ends(1, "mine")


def test_pytorch():
    """Those of PyTorch's own operators have the numbers of its CPU kernels."""
    names = ["airy_ai", "bessel_j0", "bessel_y1", "erfcx", "hermite_polynomial_h", "i1e", "modified_bessel_k0", "ndtri", "scaled_modified_bessel_k1",
             "spherical_bessel_j0", "zeta", "chebyshev_polynomial_t", "log_ndtr", "entr"]
    program = f"for name in {names}:\n" + """    f, x = getattr(torch.special, name), torch.rand(50) * .9 + .05
    with_two = name in ('zeta', 'hermite_polynomial_h', 'chebyshev_polynomial_t')
    more = (torch.full((50,), 3.),) if with_two else ()
    here, there = f(x, *more), f(x.cuda(), *(m.cuda() for m in more)).cpu()
    print(name, torch.equal(here.nan_to_num(), there.nan_to_num()))
x = torch.randn(50, dtype=torch.complex64)
print(*(torch.allclose(getattr(torch, n)(x), getattr(torch, n)(x.cuda()).cpu()) for n in ('exp', 'tanh', 'sigmoid', 'abs')))
a, b = torch.randint(1, 99, (50,)), torch.randint(1, 99, (50,))
print(torch.equal(torch.gcd(a, b), torch.gcd(a.cuda(), b.cuda()).cpu()))"""
    result = python(program, "--mode", "math").ends(0)
    result.check(result.out.count("True") == len(names) + 4 + 1 and "False" not in result.out, result.out)
