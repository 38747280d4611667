"""Programs with the operators of cuSOLVER and cuSPARSE, and what the CPU has in no half precision."""
import json
import lzma
import re
import sys

from testing.said import FOLDER, HERE, Said, python

WARNING = "cuSOLVER's workspaces are modelled"


# holds: harness/virtual/README.md, cuFFT
def test_half():
    """In half precision: transforms of Fourier, which the CPU has in float alone, and numbers that are never 0."""
    result = python("""
x = torch.randn(4, 8, device="cuda", dtype=torch.complex64).to(torch.complex32)
real = torch.randn(4, 8, device="cuda").half()
for of_half, of_float in ((torch.fft.fft(x), torch.fft.fft(x.to(torch.complex64))), (torch.fft.ifft(x), torch.fft.ifft(x.to(torch.complex64))),
                          (torch.fft.rfft(real), torch.fft.rfft(real.float())), (torch.fft.irfft(x, 8), torch.fft.irfft(x.to(torch.complex64), 8))):
    assert of_half.dtype in (torch.half, torch.complex32) and torch.allclose(of_half.to(of_float.dtype), of_float, rtol=1e-2, atol=1e-2), (of_half, of_float)
torch.manual_seed(2)  # the CPU's numbers have three zeros
drawn = torch.empty(50_000_000, device="cuda", dtype=torch.half).exponential_()
print("zeros", (drawn == 0).sum().item(), "mean", round(drawn.float().mean().item(), 2))""", "--mode", "math").ends(0)
    result.check(result.out == "zeros 0 mean 1.0\n", "no zeros")


# night: encoders of sequences of different lengths, compared in each
def test_nested():
    """Sequences of different lengths: as each alone, and in encoders that take their padding away, as on the CPU."""
    encoder = """
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 2).cuda().eval()
padding = torch.arange(10, device="cuda").expand(2, 10) >= torch.tensor([[10], [6]], device="cuda")
with torch.no_grad():
    print(tuple(encoder(torch.randn(2, 10, 512, device="cuda"), src_key_padding_mask=padding).shape))"""
    peaks = set()
    for mode in ("known", "math"):
        result = python(encoder, "--mode", mode).ends(0)
        result.check(result.out == "(2, 10, 512)\n", "the shape of the output")
        peaks.add(re.search(r"process \d+ +(.*)", result.err)[1])
    result.check(len(peaks) == 1, f"the peaks: {peaks}")
    numbers = Said("--mode", "math", "--", sys.executable, HERE / "nested_numbers.py").ends(0)
    numbers.check(numbers.out == "63 compared, 0 differ\n", numbers.out)
    numbers = Said("--mode", "known", "--", sys.executable, HERE / "nested_numbers.py").ends(0)  # flash attention leaves a state without dropout unknown
    numbers.check(numbers.out == "attention torch.float16 differ\n63 compared, 1 differ\n", numbers.out)
    for mode in ("known", "math"):
        result = python("""
from torch.nn import functional as F
x = torch.nested.nested_tensor([torch.randn(5, 64), torch.randn(9, 64)], layout=torch.jagged, device="cuda", requires_grad=True)
heads = x.unflatten(-1, (4, 16)).transpose(1, 2)
F.scaled_dot_product_attention(heads, heads, heads).values().square().sum().backward()
for part, gradient in zip(x.detach().unbind(), x.grad.unbind()):
    alone = part.clone().requires_grad_()
    heads = alone.view(1, -1, 4, 16).transpose(1, 2)
    F.scaled_dot_product_attention(heads, heads, heads).square().sum().backward()
    print(torch.allclose(gradient, alone.grad, rtol=1e-5, atol=1e-5))""", "--mode", mode).ends(0)
        result.check(result.out == "True\nTrue\n", "the gradients")


def test_dense():
    """Every operator of torch.linalg on matrices at random, of every type, as on the CPU."""
    result = Said("--mode", "math", "--", sys.executable, HERE / "linalg_numbers.py", 12).ends(0)
    match = re.search(r"(\d+) compared, (\d+) differ, (\d+) refused by both", result.out)
    result.check(match and int(match[1]) == 12 * 39 and match[2] == "0" and int(match[3]) < 40, result.out[-600:])


# night: optimizers that decompose, in three modes
def test_modes():
    """Optimizers that decompose have one peak in all modes; what failed is said in math as on a GPU, and nothing is said of what is not computed."""
    peaks = {}
    for mode in ("shapes", "known", "math"):
        result = Said("--mode", mode, "--schedule", "instant", "--", sys.executable, HERE / "second_order.py").ends(0)
        peaks[mode] = re.search(r"process \d+ +(.*)", result.err)[1]
    result.check(len(set(peaks.values())) == 1, str(peaks))
    fails = "torch.linalg.cholesky(-torch.eye(3, device='cuda'))"
    python(fails, "--mode", "math").ends(1, "linalg.cholesky: The factorization could not be completed because the input is not positive-definite")
    result = python("x = torch.randn(300, 300, device='cuda')\ntorch.linalg.cholesky(x)\ntorch.linalg.svd(x)\ntorch.linalg.solve(x, x)", "--mode", "known").ends(0)
    result.check("control flow" not in result.err and "_linalg_check_errors" in result.err, "no branch of the program's")


# holds: harness/virtual/README.md, cuSOLVER
# holds: harness/virtual/stubs/
def test_workspaces():
    """Modelled where no call of an H100 had these sizes, or the GPU is another."""
    for gpu, size, kind, modelled in (("h100-80g", 128, "float64", False), ("h100-80g", 129, "float32", True), ("h100-80g", 128, "complex64", True),
                                      ("a100-80g", 128, "float32", True)):
        result = python(f"torch.linalg.qr(torch.randn({size}, {size}, device='cuda', dtype=torch.{kind}))", "--gpu", gpu).ends(0)
        result.check((WARNING in result.err) == modelled, f"{gpu}, {size}, {kind}")
    # eigh of torch 2.14 and newer calls cusolverDnXsyevBatched for one matrix: as syevd's size from where it was recorded on, and said to be unknown beyond.
    sizes = python("""
import ctypes
solver = ctypes.CDLL("libcusolver.so.12" if torch.version.cuda.startswith("13") else "libcusolver.so.11")
handle, on_device, on_host = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
solver.cusolverDnCreate(ctypes.byref(handle))
for n in 8, 32, 33, 100, 700, 1024, 1500, 4096:
    words = (handle, None, 0, 0, ctypes.c_int64(n), 0, None, ctypes.c_int64(n), 0, None, 0, ctypes.byref(on_device), ctypes.byref(on_host))
    solver.cusolverDnXsyevd_bufferSize(*words)
    one = on_device.value
    solver.cusolverDnXsyevBatched_bufferSize(*words, ctypes.c_int64(1))
    print("size", n, one, on_device.value)
""").ends(0)
    for n, one, batched in (map(int, row) for row in re.findall(r"^size (\d+) (\d+) (\d+)$", sizes.out, re.M)):
        sizes.check(0 <= one - batched <= 320, f"{n} columns: {batched:,} bytes of a batch of one, {one:,} of syevd")
    sizes.check("recorded from 1 to 1024 columns, with straight lines between" in sizes.err and "recorded from 1 to 1024 columns, and beyond that not known" in sizes.err, "the scope")


# holds: harness/virtual/README.md, cuSPARSE and sparse tensors
def test_sparse():
    """Sparse tensors at random, and SparseAdam, as on the CPU; in known also what is made of known values. What is not computed is refused by name."""
    for mode in ("math", "known"):
        result = Said("--mode", mode, "--", sys.executable, HERE / "sparse_numbers.py", 2).ends(0)
        result.check("54 compared, 0 differ" in result.out, result.out[-600:])
    python("x = torch.eye(3, device='cuda').to_sparse()\ntorch.sparse.softmax(x, 1)", "--mode", "math").ends(1, "no numbers for this operator")
    train = ("net = torch.nn.Embedding(50000, 64, sparse=True, device='cuda')\noptimizer = torch.optim.SparseAdam(net.parameters())\n"
             "for step in range(3):\n    net(torch.randint(50000, (16, 128)).cuda()).square().sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()")
    peaks = [re.search(r"process \d+ +(.*)", python("torch.manual_seed(0)\n" + train, "--mode", mode).ends(0).err)[1] for mode in ("known", "math")]
    result.check(peaks[0] == peaks[1], f"the indices are known, the values are not: {peaks}")


ASKED = """import json, sys
from asked import TYPES, events_of
for row in map(json.loads, open(sys.argv[1])):
    n, m, k, right, kind = (row[key] for key in ("rows", "columns", "entries", "right", "type"))
    columns, values, x = torch.zeros(k, dtype=torch.int64, device="cuda"), torch.zeros(k, dtype=TYPES[kind], device="cuda"), torch.zeros(m, right, dtype=TYPES[kind], device="cuda")
    if row["operator"] == "coo @ dense":
        sparse = torch.sparse_coo_tensor(torch.stack([columns, columns]), values, (n, m), is_coalesced=True)
        call = lambda: torch.sparse.mm(sparse, x)
    else:
        sparse = torch.sparse_csr_tensor(torch.zeros(n + 1, dtype=torch.int64, device="cuda"), columns, values, (n, m))
        call = lambda: sparse @ (x[:, 0].contiguous() if "vector" in row["operator"] else x)
    call()
    asked = [size for action, _, size in events_of(call) if action == "alloc"]
    print(asked[-len(row["asked"]):] == row["asked"])
"""


# holds: reports/measured/README.md, Recorded by tidemark on an H100
def test_asked():
    """Products of the sizes that were recorded ask for the same bytes in the same order."""
    measured = HERE.parents[2] / "reports" / "measured"
    with lzma.open(measured / "h100-80g" / "asked.jsonl.xz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["catalogue"] == "sparse" and "@" in row.get("operator", "") and row["operator"] != "csr @ csr" and "asked" in row]
    (FOLDER / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = python(f"import sys\nsys.argv = ['', {str(FOLDER / 'rows')!r}]\nsys.path.append({str(measured)!r})\n" + ASKED, "--gpu", "h100-80g", "--mode", "shapes").ends(0)
    result.check(result.out.split().count("True") == len(rows) == 396, f"{result.out.split().count('True')} of {len(rows)}")


PRODUCTS = """import json, sys
from asked import TYPES, events_of
for row in map(json.loads, open(sys.argv[1])):
    n, m, k = (row[key] for key in ("rows", "columns", "entries"))
    dense = torch.zeros(n * m, dtype=TYPES[row["type"]])
    dense[torch.randperm(n * m)[:k]] = 1
    csr, other = dense.view(n, m).to_sparse_csr().cuda(), dense.view(n, m).t().contiguous().to_sparse_csr().cuda()
    found = []
    asked = [size for action, _, size in events_of(lambda: found.append(csr @ other)) if action == "alloc"]
    each = dense.view(n, m).sum(0)
    print(asked[:9] == row["asked"][:9], asked[10:] == [found[0]._nnz() * dense.element_size(), found[0]._nnz() * 4],
          asked[9] == int((each * each).sum()) * (16 + 2 * dense.element_size()) + 3847 + n * 41 // 4)
"""


# night: the bytes of products at many sizes; exec_linalg_sparse has some by day
def test_products():
    """Products of two sparse matrices: the bytes that an H100 asked for, and the rule for the one that depends on the indices."""
    measured = HERE.parents[2] / "reports" / "measured"
    with lzma.open(measured / "h100-80g" / "asked.jsonl.xz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row.get("operator") == "csr @ csr"]
    pairs = [[row["asked"][9] for row in rows if row["type"] == kind] for kind in ("f32", "f64")]
    for row, single, double in zip(rows, *pairs):
        products = (double - single) // 8
        share = (products * 24 + 3847 + row["rows"] * 41 // 4) / single
        Said("--", "true").check(0.93 <= share <= 1.0001, f"{row}: the model has {share:.4f} of what was recorded")
    few = [row for row in rows if row["entries"] < 50_000]
    (FOLDER / "rows").write_text("".join(json.dumps(row) + "\n" for row in few))
    text = f"import sys\nsys.argv = ['', {str(FOLDER / 'rows')!r}]\nsys.path.append({str(measured)!r})\n" + PRODUCTS
    for mode in "math", "known":
        result = python(text, "--gpu", "h100-80g", "--mode", mode).ends(0, "cuSPARSE's workspaces are modelled")
        result.check(result.out.split().count("True") == 3 * len(few) == 54, result.out)
    unknown = "x = torch.randn(2000, 2000, device='cuda').relu().to_sparse_csr()\nx @ x"
    python(unknown, "--sizes", "1%").ends(1, "depends on")
    python("x = torch.eye(3).to_sparse().cuda()\ntorch.sparse.mm(x, x)", "--mode", "shapes").ends(1, "aten::_sparse_sparse_matmul depends on values")


BLOCKS = """
VALUES = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
M, K, N = 160, 224, 96

def tiles(scales):  # of 128 rows and 4 blocks, as cuBLAS wants them
    down, across = -(-scales.shape[0] // 128), -(-scales.shape[1] // 4)
    full = torch.zeros(down * 128, across * 4, dtype=torch.uint8)
    full[:scales.shape[0], :scales.shape[1]] = scales.view(torch.uint8)
    out = torch.empty(down, across, 32, 16, dtype=torch.uint8)
    for r in range(down * 128):
        for c in range(across * 4):
            out[r // 128, c // 4, r % 32, r % 128 // 32 * 4 + c % 4] = full[r, c]
    return out.flatten().view(scales.dtype).cuda()

def check(a, b, exact_a, exact_b, sa, sb, block):
    wide = [exact * s.float().repeat_interleave(block, 1) for exact, s in ((exact_a, sa), (exact_b, sb))]
    y = torch._scaled_mm(a.cuda(), b.cuda().t(), tiles(sa), tiles(sb), out_dtype=torch.bfloat16)
    print(torch.allclose(y.float().cpu(), wide[0] @ wide[1].T, rtol=2 ** -8, atol=1e-2))

a, b = torch.randn(M, K).to(torch.float8_e4m3fn), torch.randn(N, K).to(torch.float8_e4m3fn)
check(a, b, a.float(), b.float(), *(torch.randint(124, 130, (n, K // 32), dtype=torch.uint8).view(torch.float8_e8m0fnu) for n in (M, N)), 32)
a, b = torch.randint(256, (M, K // 2), dtype=torch.uint8), torch.randint(256, (N, K // 2), dtype=torch.uint8)
exact = [torch.stack([VALUES[(x & 15).long()], VALUES[(x >> 4).long()]], -1).flatten(1) for x in (a, b)]
check(a.view(torch.float4_e2m1fn_x2), b.view(torch.float4_e2m1fn_x2), *exact, *(torch.rand(n, K // 16).to(torch.float8_e4m3fn) for n in (M, N)), 16)
"""


OF_128 = """
from torch.nn.functional import ScalingType, scaled_mm
KINDS = {1: ScalingType.BlockWise1x128, 128: ScalingType.BlockWise128x128}

def laid_out(scale, of):  # the rows are contiguous where each has scales of its own
    return scale.t().contiguous().cuda().t() if of == 1 else scale.cuda()

def filled(scale, of):  # 128 rows have one scale: filled up to a multiple of 4, and the blocks along a row come first
    if of == 1:
        return laid_out(scale, of)
    return torch.nn.functional.pad(scale, (0, -scale.shape[1] % 4), value=float("nan")).cuda().t()

for m, n, k in (256, 128, 512), (200, 400, 256), (64, 256, 384), (512, 512, 512):
    for of_a, of_b in (1, 1), (1, 128), (128, 1):
        a, b = torch.randn(m, k).to(torch.float8_e4m3fn), torch.randn(n, k).to(torch.float8_e4m3fn)
        sa, sb = (torch.rand(-(-rows // of), -(-k // 128)) + .5 for rows, of in ((m, of_a), (n, of_b)))
        wide = [x.float() * s.repeat_interleave(of, 0)[:len(x)].repeat_interleave(128, 1)[:, :k] for x, s, of in ((a, sa, of_a), (b, sb, of_b))]
        y = torch._scaled_mm(a.cuda(), b.cuda().t(), laid_out(sa, of_a), laid_out(sb, of_b).t(), out_dtype=torch.bfloat16)
        z = scaled_mm(a.cuda(), b.cuda().t(), filled(sa, of_a), KINDS[of_a], filled(sb, of_b), KINDS[of_b], output_dtype=torch.bfloat16)
        print(*(torch.allclose(found.float().cpu(), wide[0] @ wide[1].T, rtol=2 ** -8, atol=1e-2) for found in (y, z)))
"""


def test_blocks():
    """Products with scales by block: MXFP8, NVFP4, and scales in float for blocks of 1 x 128 and 128 x 128."""
    result = python("torch.manual_seed(0)" + BLOCKS, "--gpu", "b200-180g", "--mode", "math").ends(0)
    result.check(result.out.split() == ["True", "True"], result.out)
    result = python("torch.manual_seed(0)" + OF_128, "--gpu", "h100-80g", "--mode", "math").ends(0)
    result.check(result.out.split() == ["True"] * 24, result.out)


GROUPS = """
torch.manual_seed(0)
ends = torch.tensor([16, 48, 48, 80], dtype=torch.int32)
ranges = [slice(begin, end) for begin, end in zip([0, *ends.tolist()], ends.tolist())]
F8 = torch.float8_e4m3fn
x, y, w, v = torch.randn(80, 64), torch.randn(4, 16, 64), torch.randn(4, 32, 64), torch.randn(32, 80)
GROUPS = {  # the operands, and the groups of each one
    "rows": (x, w.mT, [x[r] for r in ranges], list(w.mT)), "batches": (y, w.mT, list(y), list(w.mT)), "columns": (y, x.T, list(y), [x[r].T for r in ranges]),
    "inner": (x.T, v.T, [x.T[:, r] for r in ranges], [v.T[r] for r in ranges]),
}
for name, (a, b, of_a, of_b) in GROUPS.items():
    joined = (lambda parts: torch.cat(parts, {"rows": 0, "columns": 1}[name])) if name in ("rows", "columns") else torch.stack
    offs = None if name == "batches" else ends.cuda()
    def inner(t, kind):  # the inner dimension is contiguous on both sides
        return t.to(kind).contiguous().cuda() if t is a else t.to(kind).mT.contiguous().cuda().mT
    exact = joined([p.bfloat16().float() @ q.bfloat16().float() for p, q in zip(of_a, of_b)])
    there = torch._grouped_mm(inner(a, torch.bfloat16), inner(b, torch.bfloat16), offs=offs, out_dtype=torch.bfloat16)
    print(name, torch.allclose(there.float().cpu(), exact, rtol=2 ** -8, atol=1e-2))
    sa, sb = ([torch.rand(size) + .5 for size in sizes] for sizes in ([p.shape[0] for p in of_a], [q.shape[1] for q in of_b]))
    exact = joined([p.to(F8).float() * s[:, None] @ (q.to(F8).float() * t) for p, q, s, t in zip(of_a, of_b, sa, sb)])
    scales = [(torch.cat if t.dim() == 2 else torch.stack)(s).cuda() for t, s in ((a, sa), (b, sb))]
    there = torch._scaled_grouped_mm(inner(a, F8), inner(b, F8), *scales, offs=offs, out_dtype=torch.bfloat16)
    print(name, torch.allclose(there.float().cpu(), exact, rtol=2 ** -8, atol=1e-2))
x, w = x.bfloat16().cuda().requires_grad_(), w.bfloat16().cuda().requires_grad_()
torch._grouped_mm(x, w.mT, offs=ends.cuda(), out_dtype=torch.bfloat16).float().square().sum().backward()
there = [x.grad, w.grad]
x.grad = w.grad = None
torch.cat([x[r] @ part.T for r, part in zip(ranges, w)]).float().square().sum().backward()
print("gradients", all(torch.allclose(*pair, rtol=.02, atol=.5) for pair in zip(there, (x.grad, w.grad))))
"""


def test_groups():
    """Products of groups of matrices, which experts use, with scales of rows and without."""
    result = python(GROUPS, "--gpu", "h100-80g", "--mode", "math").ends(0)
    result.check(result.out.count("True") == 9 and "False" not in result.out, result.out)
