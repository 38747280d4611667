#!/usr/bin/env python3
"""What CUDA's libraries ask the allocator for: each operator of a catalogue is called twice on the GPU, and its allocations are noted.

    python3 reports/measured/asked.py --out FILE [--seconds S] [--part N/M] [CATALOGUE...]

FILE has a line a call, as JSON: what was called (catalogue, operator, arguments) and `asked`, the requested bytes of the allocations in their order, with
`freed` of them within the call. Catalogues: outside, convolutions, recurrent, norms, attention, fft, linalg, sparse, sorts.
The second call of an operator is noted, so that handles and plans are made already; `first` is what the first call asked for, where it differs."""
import argparse
import itertools
import json
import os
import sys
import time

import torch
from torch.nn import functional as F

CATALOGUES = {}


def catalogue(function):
    CATALOGUES[function.__name__] = function
    return function


def events_of(call):
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=100000)
    kept = call()
    torch.cuda.synchronize()
    trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    del kept
    return [(e["action"], e["addr"], e["size"]) for e in trace if e["action"] in ("alloc", "free_completed")]


def note(file, what, call):
    try:
        first = [n for a, _, n in events_of(call) if a == "alloc"]
        events = events_of(call)
    except Exception as error:  # the device must outlive an operator that refuses
        text = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        file.write(json.dumps({**what, "refused": text}) + "\n")
        torch.cuda.synchronize()
        return
    asked = [n for a, _, n in events if a == "alloc"]
    alive, freed = {}, []
    for action, address, n in events:
        if action == "alloc":
            alive[address] = n
        elif address in alive:
            freed.append(alive.pop(address))
    row = {**what, "asked": asked, "freed": freed}
    if first != asked:
        row["first"] = first
    file.write(json.dumps(row) + "\n")


TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128}


@catalogue
def outside():
    """Bytes of the device outside the allocator after each first use; run alone on the GPU."""
    def used():
        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved()

    def group():
        import torch.distributed as dist
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29777", RANK="0", WORLD_SIZE="1")
        dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
        dist.all_reduce(x)

    rows = [("context", used())]
    p = torch.cuda.get_device_properties(0)
    yield {"operator": "device", "name": p.name, "total": p.total_memory, "mem_get_info": torch.cuda.mem_get_info()[1], "properties": str(p)}, None
    x = torch.randn(512, 512, device="cuda")
    uses = {"a kernel": lambda: x + x, "cuBLAS": lambda: x @ x, "cuBLASLt": lambda: F.linear(x.half(), x.half(), x[0].half()),
            "cuDNN": lambda: F.conv2d(torch.randn(2, 8, 16, 16, device="cuda"), torch.randn(8, 8, 3, 3, device="cuda")),
            "attention": lambda: F.scaled_dot_product_attention(*(torch.randn(1, 8, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)), is_causal=True),
            "cuFFT": lambda: torch.fft.fft(x), "cuSOLVER": lambda: torch.linalg.cholesky(x @ x.t() + 1000 * torch.eye(512, device="cuda")),
            "cuSPARSE": lambda: torch.eye(512, device="cuda").to_sparse_csr() @ x, "a stream": torch.cuda.Stream, "NCCL, one rank": group}
    for what, use in uses.items():
        try:
            use()
            torch.cuda.synchronize()
        except Exception as error:
            what += f", refused: {str(error)[:100]}"
        rows.append((what, used()))
    for what, n in rows:
        yield {"operator": "used outside the allocator", "after": what, "bytes": n}, None


SHAPES = [  # N, C, H, W, K, R, stride, padding, dilation, groups: layers of resnet, vgg, mobilenet, efficientnet, convnext, a U-Net, a VAE, a patch embedding
    (2, 64, 128, 128, 64, 3, 1, 1, 1, 1), (32, 3, 224, 224, 64, 7, 2, 3, 1, 1), (32, 64, 56, 56, 64, 1, 1, 0, 1, 1), (32, 64, 56, 56, 64, 3, 1, 1, 1, 1),
    (32, 64, 56, 56, 256, 1, 1, 0, 1, 1), (32, 256, 56, 56, 128, 1, 1, 0, 1, 1), (32, 128, 56, 56, 128, 3, 2, 1, 1, 1), (32, 256, 56, 56, 512, 1, 2, 0, 1, 1),
    (32, 128, 28, 28, 128, 3, 1, 1, 1, 1), (32, 512, 28, 28, 256, 1, 1, 0, 1, 1), (32, 256, 14, 14, 256, 3, 1, 1, 1, 1), (32, 1024, 14, 14, 512, 1, 1, 0, 1, 1),
    (32, 512, 7, 7, 512, 3, 1, 1, 1, 1), (32, 512, 7, 7, 2048, 1, 1, 0, 1, 1), (16, 3, 224, 224, 64, 3, 1, 1, 1, 1), (16, 64, 112, 112, 128, 3, 1, 1, 1, 1),
    (16, 256, 56, 56, 256, 3, 1, 1, 1, 1), (16, 512, 14, 14, 512, 3, 1, 1, 1, 1), (32, 32, 112, 112, 32, 3, 1, 1, 1, 32), (32, 96, 112, 112, 96, 3, 2, 1, 1, 96),
    (32, 144, 56, 56, 144, 5, 2, 2, 1, 144), (32, 240, 28, 28, 240, 5, 1, 2, 1, 240), (32, 96, 56, 56, 96, 7, 1, 3, 1, 96), (32, 384, 14, 14, 384, 7, 1, 3, 1, 384),
    (32, 3, 224, 224, 96, 4, 4, 0, 1, 1), (32, 3, 224, 224, 768, 16, 16, 0, 1, 1), (32, 3, 224, 224, 32, 3, 2, 1, 1, 1), (32, 16, 112, 112, 96, 1, 1, 0, 1, 1),
    (2, 320, 64, 64, 320, 3, 1, 1, 1, 1), (2, 640, 32, 32, 640, 3, 1, 1, 1, 1), (2, 1280, 16, 16, 1280, 3, 1, 1, 1, 1), (2, 4, 64, 64, 320, 3, 1, 1, 1, 1),
    (2, 320, 64, 64, 4, 3, 1, 1, 1, 1), (2, 1280, 8, 8, 1280, 3, 1, 1, 1, 1), (1, 128, 512, 512, 128, 3, 1, 1, 1, 1), (1, 512, 64, 64, 512, 3, 1, 1, 1, 1),
    (1, 256, 256, 256, 256, 3, 1, 1, 1, 1), (4, 256, 32, 32, 512, 3, 2, 1, 1, 1), (8, 128, 32, 32, 128, 3, 1, 2, 2, 1), (8, 256, 28, 28, 256, 3, 1, 4, 4, 1),
    (32, 128, 28, 28, 128, 3, 1, 1, 1, 32), (32, 256, 56, 56, 256, 3, 2, 1, 1, 32), (8, 64, 33, 47, 96, 5, 1, 2, 1, 1), (8, 30, 31, 31, 50, 3, 1, 1, 1, 1),
    (1, 1, 28, 28, 32, 3, 1, 0, 1, 1), (64, 1, 28, 28, 32, 3, 1, 1, 1, 1), (64, 32, 26, 26, 64, 3, 1, 0, 1, 1), (128, 16, 32, 32, 16, 3, 1, 1, 1, 1),
    (128, 3, 32, 32, 16, 3, 1, 1, 1, 1), (256, 64, 8, 8, 64, 3, 1, 1, 1, 1), (1, 64, 256, 256, 64, 3, 1, 1, 1, 1), (16, 48, 64, 64, 48, 3, 1, 1, 1, 1),
]


def convolution(kind, last, shape, **more):
    """Forward, and backward to the input and to the filter."""
    n, c, h, w, k, r, stride, padding, dilation, groups = shape
    layout = torch.channels_last if last else torch.contiguous_format
    x = torch.randn(n, c, h, w, device="cuda", dtype=TYPES[kind]).to(memory_format=layout)
    f = torch.randn(k, c // groups, r, r, device="cuda", dtype=TYPES[kind]).to(memory_format=layout)
    what = {"type": kind, "channels_last": last, "shape": shape, **more}
    y = F.conv2d(x, f, None, stride, padding, dilation, groups)
    yield {"operator": "forward", **what}, lambda: F.conv2d(x, f, None, stride, padding, dilation, groups)
    for operator, mask in (("backward_data", [True, False, False]), ("backward_filter", [False, True, False])):
        yield {"operator": operator, **what}, lambda: torch.ops.aten.convolution_backward(
            y, x, f, None, [stride] * 2, [padding] * 2, [dilation] * 2, False, [0, 0], groups, mask)


@catalogue
def convolutions():
    for kind, last, shape in itertools.product(("f32", "f16", "bf16"), (False, True), SHAPES):
        yield from convolution(kind, last, shape)
    for kind, tf32 in (("f32", False), ("f64", True)):
        torch.backends.cudnn.allow_tf32 = tf32
        for shape in SHAPES[::3]:
            yield from convolution(kind, False, shape, tf32=tf32)
    torch.backends.cudnn.allow_tf32 = True
    for kind in ("f32", "f16", "bf16"):
        for n, c, length, k, r, stride in ((4, 512, 6399, 512, 3, 2), (4, 80, 3000, 384, 3, 1), (4, 384, 3000, 384, 3, 2), (8, 64, 16000, 64, 7, 1), (4, 1, 64000, 512, 10, 5)):
            x, f = torch.randn(n, c, length, device="cuda", dtype=TYPES[kind]), torch.randn(k, c, r, device="cuda", dtype=TYPES[kind])
            yield {"operator": "conv1d", "type": kind, "shape": (n, c, length, k, r, stride)}, lambda: F.conv1d(x, f, None, stride)
        for n, c, d, k, r, stride in ((2, 32, 32, 64, 3, 1), (2, 1, 64, 32, 3, 1), (1, 128, 16, 128, 3, 2)):
            x, f = torch.randn(n, c, d, d, d, device="cuda", dtype=TYPES[kind]), torch.randn(k, c, r, r, r, device="cuda", dtype=TYPES[kind])
            yield {"operator": "conv3d", "type": kind, "shape": (n, c, d, k, r, stride)}, lambda: F.conv3d(x, f, None, stride, 1)


@catalogue
def recurrent():
    from torch import nn
    for kind, size, layers, length, n, both, dropped in itertools.product(("LSTM", "GRU", "RNN"), ((64, 64), (512, 512), (100, 300), (1024, 1024)), (1, 2, 3), (1, 7, 100), (1, 64),
                                                                          (False, True), (0.0, 0.2)):
        if dropped and (layers == 1 or length == 7):
            continue
        for type_ in ("f32", "f16"):
            net = getattr(nn, kind)(size[0], size[1], layers, bidirectional=both, dropout=dropped).to("cuda", TYPES[type_])
            x = torch.randn(length, n, size[0], device="cuda", dtype=TYPES[type_], requires_grad=True)
            what = {"kind": kind, "size": size, "layers": layers, "length": length, "batch": n, "both": both, "dropout": dropped, "type": type_}
            yield {"operator": "forward", **what}, lambda: net(x)
            y = net(x)[0]
            yield {"operator": "backward", **what}, lambda: torch.autograd.grad(y.sum(), [x, *net.parameters()], retain_graph=True)


@catalogue
def norms():
    for kind, last, shape in itertools.product(("f32", "f16"), (False, True), ((32, 64, 56, 56), (64, 256, 14, 14), (2, 32, 128, 128), (512, 128), (4, 100, 9, 9))):
        if last and len(shape) == 2:
            continue
        x = torch.randn(*shape, device="cuda", dtype=TYPES[kind]).requires_grad_()
        if last:
            x = x.detach().to(memory_format=torch.channels_last).requires_grad_()
        w = torch.ones(shape[1], device="cuda", requires_grad=True)
        b, mean, var = torch.zeros_like(w).requires_grad_(), torch.zeros(shape[1], device="cuda"), torch.ones(shape[1], device="cuda")
        what = {"type": kind, "channels_last": last, "shape": shape}
        yield {"operator": "batch_norm", **what}, lambda: F.batch_norm(x, mean, var, w, b, True)
        y = F.batch_norm(x, mean, var, w, b, True)
        yield {"operator": "batch_norm backward", **what}, lambda: torch.autograd.grad(y.float().sum(), [x, w, b], retain_graph=True)
        yield {"operator": "batch_norm evaluated", **what}, lambda: F.batch_norm(x, mean, var, w, b, False)


@catalogue
def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for backend, kind, (n, heads, length, keys, width, groups), causal in itertools.product(
            ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", None), ("bf16", "f16"),
            ((2, 16, 2048, 2048, 64, 16), (4, 32, 1024, 1024, 128, 8), (1, 8, 100, 100, 64, 8), (8, 12, 512, 512, 64, 12), (2, 8, 1, 777, 128, 8), (2, 16, 512, 1024, 64, 16),
             (2, 8, 4096, 4096, 128, 8), (4, 4, 64, 64, 32, 4), (2, 8, 256, 256, 256, 8), (1, 1, 16, 16, 8, 1)), (True, False)):
        q = torch.randn(n, heads, length, width, device="cuda", dtype=TYPES[kind], requires_grad=True)
        k, v = (torch.randn(n, groups, keys, width, device="cuda", dtype=TYPES[kind], requires_grad=True) for _ in range(2))

        def call():
            import contextlib
            with sdpa_kernel(getattr(SDPBackend, backend)) if backend else contextlib.nullcontext():
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal and length == keys, enable_gqa=groups != heads)

        what = {"backend": backend or "default", "type": kind, "shape": (n, heads, length, keys, width, groups), "causal": causal}
        yield {"operator": "forward", **what}, call
        try:
            y = call()
        except Exception:
            continue
        yield {"operator": "backward", **what}, lambda: torch.autograd.grad(y, [q, k, v], torch.ones_like(y), retain_graph=True)


@catalogue
def fft():
    sizes = [16, 64, 100, 127, 128, 210, 243, 256, 343, 400, 500, 512, 1000, 1009, 1024, 2048, 4096, 4099, 8192, 16384, 30030, 32768, 65536, 100000, 131072, 262144, 1 << 20]
    for kind, n, batch in itertools.product(("c64", "c128"), sizes, (1, 3, 64)):
        if n * batch > 1 << 24:
            continue
        x = torch.randn(batch, n, device="cuda", dtype=TYPES[kind])
        yield {"operator": "fft", "type": kind, "size": n, "batch": batch}, lambda: torch.fft.fft(x)
        r = x.real.contiguous()
        yield {"operator": "rfft", "type": kind, "size": n, "batch": batch}, lambda: torch.fft.rfft(r)
        h = torch.fft.rfft(r)
        yield {"operator": "irfft", "type": kind, "size": n, "batch": batch}, lambda: torch.fft.irfft(h, n)
    for kind, shape in itertools.product(("c64", "c128"), ((1, 64, 64), (8, 128, 128), (4, 512, 512), (2, 100, 200), (1, 1024, 1024), (3, 127, 64), (16, 224, 224), (2, 1000, 30))):
        x = torch.randn(*shape, device="cuda", dtype=TYPES[kind])
        r = x.real.contiguous()
        yield {"operator": "fft2", "type": kind, "shape": shape}, lambda: torch.fft.fft2(x)
        yield {"operator": "rfft2", "type": kind, "shape": shape}, lambda: torch.fft.rfft2(r)
        h = torch.fft.rfft2(r)
        yield {"operator": "irfft2", "type": kind, "shape": shape}, lambda: torch.fft.irfft2(h, shape[1:])
    for shape in ((1, 32, 32, 32), (2, 64, 64, 64), (1, 100, 50, 40)):
        x = torch.randn(*shape, device="cuda", dtype=torch.complex64)
        yield {"operator": "fftn", "shape": shape}, lambda: torch.fft.fftn(x, dim=(1, 2, 3))
    sound, window = torch.randn(8, 80000, device="cuda"), torch.hann_window(400, device="cuda")
    for n, hop in ((400, 160), (512, 128), (1024, 256)):
        yield {"operator": "stft", "size": n, "hop": hop}, lambda: torch.stft(sound, n, hop, window=torch.nn.functional.pad(window, (0, n - 400)), return_complex=True)


@catalogue
def linalg():
    sizes = [1, 2, 8, 16, 31, 32, 33, 64, 100, 128, 200, 256, 500, 512, 768, 1000, 1024, 2048]
    for kind, n, batch in itertools.product(("f32", "f64", "c64"), sizes, (0, 1, 4, 64)):
        if n * n * max(batch, 1) > 1 << 23:
            continue
        head = (batch,) if batch else ()
        a = torch.randn(*head, n, n, device="cuda", dtype=TYPES[kind])
        s = a @ a.mH + n * torch.eye(n, device="cuda", dtype=TYPES[kind])
        b = torch.randn(*head, n, 8, device="cuda", dtype=TYPES[kind])
        what = {"type": kind, "size": n, "batch": batch}
        lower = torch.linalg.cholesky(s)
        lu, pivots = torch.linalg.lu_factor(a)
        calls = {"cholesky": lambda: torch.linalg.cholesky(s), "cholesky_ex": lambda: torch.linalg.cholesky_ex(s), "lu_factor": lambda: torch.linalg.lu_factor(a),
                 "solve": lambda: torch.linalg.solve(a, b), "inv": lambda: torch.linalg.inv(a), "qr": lambda: torch.linalg.qr(a), "det": lambda: torch.linalg.det(a),
                 "cholesky_solve": lambda: torch.cholesky_solve(b, lower), "cholesky_inverse": lambda: torch.cholesky_inverse(lower),
                 "triangular": lambda: torch.linalg.solve_triangular(lower, b, upper=False), "lu_solve": lambda: torch.linalg.lu_solve(lu, pivots, b),
                 "ldl_factor": lambda: torch.linalg.ldl_factor(s), "householder": lambda: torch.geqrf(a), "lstsq": lambda: torch.linalg.lstsq(a, b)}
        if n <= 1024 and batch <= 4:
            calls |= {"eigh": lambda: torch.linalg.eigh(s), "eigvalsh": lambda: torch.linalg.eigvalsh(s), "svd": lambda: torch.linalg.svd(a, full_matrices=False),
                      "svdvals": lambda: torch.linalg.svdvals(a)}
        if n <= 256 and batch <= 1:
            calls |= {"eig": lambda: torch.linalg.eig(a), "matrix_exp": lambda: torch.linalg.matrix_exp(a)}
        for operator, call in calls.items():
            yield {"operator": operator, **what}, call
        tall = torch.randn(*head, 2 * n, n, device="cuda", dtype=TYPES[kind])
        yield {"operator": "qr tall", **what}, lambda: torch.linalg.qr(tall)
        if n <= 512 and batch <= 1:
            for driver in ("gesvd", "gesvdj", "gesvda"):
                yield {"operator": "svd tall", "driver": driver, **what}, lambda: torch.linalg.svd(tall, full_matrices=False, driver=driver)
            yield {"operator": "svd wide", **what}, lambda: torch.linalg.svd(tall.mH, full_matrices=True)


@catalogue
def sparse():
    for kind, n, m, filled, columns in itertools.product(("f32", "f16", "f64", "bf16"), (128, 1000, 5000), (1000, 4096), (0.001, 0.01, 0.1), (1, 64, 500)):
        torch.manual_seed(1)
        dense = (torch.rand(n, m, device="cuda") < filled).to(TYPES[kind])
        csr, coo, x = dense.to_sparse_csr(), dense.to_sparse_coo(), torch.randn(m, columns, device="cuda", dtype=TYPES[kind])
        what = {"type": kind, "rows": n, "columns": m, "entries": int(csr.values().numel()), "right": columns}
        yield {"operator": "csr @ dense", **what}, lambda: csr @ x
        yield {"operator": "coo @ dense", **what}, lambda: torch.sparse.mm(coo, x)
        if columns == 1:
            vector = x[:, 0].contiguous()
            yield {"operator": "csr @ vector", **what}, lambda: csr @ vector
            if kind in ("f32", "f64") and n <= 1000:
                other = dense.t().contiguous().to_sparse_csr()
                yield {"operator": "csr @ csr", **what, "right": "its transpose"}, lambda: csr @ other
                yield {"operator": "csr + csr", **what}, lambda: csr + csr
                yield {"operator": "to_sparse_csc", **what}, lambda: csr.to_sparse_csc()
                left, right = torch.randn(n, 16, device="cuda", dtype=TYPES[kind]), torch.randn(16, m, device="cuda", dtype=TYPES[kind])
                yield {"operator": "sampled_addmm", **what}, lambda: torch.sparse.sampled_addmm(csr, left, right)
                yield {"operator": "coalesce", **what}, lambda: torch.sparse_coo_tensor(coo.indices(), coo.values(), coo.shape).coalesce()


@catalogue
def sorts():
    for n in (1, 100, 1024, 4097, 65536, 1 << 20, 1 << 24):
        x, i = torch.randn(n, device="cuda"), torch.randint(0, max(n // 2, 1), (n,), device="cuda")
        h = x.half()
        calls = {"sort": lambda: x.sort(), "sort int64": lambda: i.sort(), "sort f16": lambda: h.sort(), "stable": lambda: x.sort(stable=True), "topk": lambda: x.topk(min(n, 10)),
                 "cumsum": lambda: x.cumsum(0), "cumprod": lambda: x.cumprod(0), "unique": lambda: i.unique(), "unique all": lambda: i.unique(return_inverse=True, return_counts=True),
                 "unique_consecutive": lambda: i.unique_consecutive(), "nonzero": lambda: i.nonzero(), "masked_select": lambda: x.masked_select(x > 0), "index": lambda: x[x > 0],
                 "bincount": lambda: i.bincount(), "randperm": lambda: torch.randperm(n, device="cuda"), "histc": lambda: x.histc(10), "kthvalue": lambda: x.kthvalue(1),
                 "median": lambda: x.median(), "mode": lambda: i.mode() if n <= 65536 else None, "sum": lambda: x.sum(), "max": lambda: x.max(0), "all": lambda: (x > 0).all(),
                 "norm": lambda: x.norm(), "softmax": lambda: x.softmax(0), "logsumexp": lambda: x.logsumexp(0), "var": lambda: x.var(), "index_put": lambda: torch.zeros_like(x).index_put_((i,), x, accumulate=True),
                 "embedding": lambda: torch.ops.aten.embedding_dense_backward(torch.ones(n, 8, device="cuda"), i, n, -1, False) if n <= 1 << 20 else None,
                 "scatter": lambda: torch.zeros_like(x).scatter_add_(0, i, x), "cummax": lambda: x.cummax(0), "logcumsumexp": lambda: x.logcumsumexp(0)}
        for operator, call in calls.items():
            yield {"operator": operator, "size": n}, call
    for n in (4, 100, 3000):
        logits = torch.randn(100, n, 30, device="cuda").log_softmax(-1).requires_grad_()
        targets = torch.randint(1, 30, (n, 20), dtype=torch.int32)
        lengths, sizes = torch.full((n,), 100, dtype=torch.int32), torch.full((n,), 20, dtype=torch.int32)
        yield {"operator": "ctc_loss", "batch": n}, lambda: F.ctc_loss(logits, targets.cuda(), lengths.cuda(), sizes.cuda())
        flat = targets.flatten()
        yield {"operator": "ctc_loss cudnn", "batch": n}, lambda: F.ctc_loss(logits, flat, lengths, sizes)


def until_it_fails(file, name):
    try:
        yield from CATALOGUES[name]()
    except Exception as error:
        file.write(json.dumps({"catalogue": name, "ended": f"{type(error).__name__}: {error}"[:300]}) + "\n")
        print(f"{name}: ended by {type(error).__name__}: {str(error)[:200]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("catalogues", nargs="*")
    a = parser.parse_args()
    part, parts = map(int, a.part.split("/"))
    end = time.monotonic() + a.seconds
    with open(a.out, "w") as file:
        for name in a.catalogues or CATALOGUES:
            count = 0
            for count, (what, call) in enumerate(until_it_fails(file, name)):
                if time.monotonic() > end:
                    file.write(json.dumps({"catalogue": name, "ended": "out of time", "after": count}) + "\n")
                    break
                what = {"catalogue": name, **what}
                if call is None:
                    file.write(json.dumps(what) + "\n")
                elif count % parts == part:
                    note(file, what, call)
            print(f"{name}: {count + 1} calls, {time.monotonic() - end + a.seconds:.1f} s", flush=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
