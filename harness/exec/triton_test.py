"""Triton's kernels, of a program and of torch.compile. They need .deps/triton (ci/setup triton), and a C compiler."""
import re
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from testing.lacks import lacks
from testing.said import FOLDER, HERE, SITE, Said

TRITON = Path(SITE).parent / "triton"
HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"
KERNEL = """
import torch, triton, triton.language as tl
from triton.language.extra import libdevice
@triton.jit
def add(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < count) + 1, at < count)
@triton.jit
def by_instruction(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + at)], dtype=tl.float32, is_pure=True, pack=1))
@triton.jit
def by_round(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), libdevice.round(tl.load(x + tl.arange(0, BLOCK))))
x, out = torch.arange(64.0, device="cuda"), torch.zeros(64, device="cuda")
"""


@pytest.fixture(autouse=True)
def what_it_compiles_with():
    for there, what in ((TRITON.exists(), str(TRITON)), (HEADER.exists(), f"{HEADER} (package python3-dev)"),
                        (any(map(shutil.which, ("cc", "gcc", "clang"))), "C compiler (package build-essential)")):
        if not there:
            lacks(what)


def program(text, *flags):
    """Without what Inductor has measured before: it would not measure again, which takes memory."""
    (FOLDER / "kernel.py").write_text(KERNEL + text)
    return Said(*flags, "--", sys.executable, FOLDER / "kernel.py", path=f"{SITE}:{TRITON}", TORCHINDUCTOR_CACHE_DIR=tempfile.mkdtemp(dir=FOLDER))


# night: compiles and compares 45 kernels; exec_kernels reads some by day
def test_numbers():
    """Every kernel as PyTorch in double precision, within the roundings of its type."""
    result = Said("--mode", "math", "--", sys.executable, HERE / "triton_numbers.py", path=f"{SITE}:{TRITON}", most=600).ends(0)
    result.check("45 compared, 0 differ, dropout keeps 0.75" in result.out, result.out)


# night: compiles a training step by Inductor
def test_modes():
    """The peaks of a compiled training step are those of mode known, in which kernels compute nothing: the host does not wait for the numbers."""
    step = """
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 64)).cuda()
optimizer, compiled = torch.optim.AdamW(model.parameters()), torch.compile(model)
for _ in range(3):
    add[(1,)](x, out, 64, BLOCK=64)
    compiled(torch.randn(32, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    known, math = (program(step, "--mode", mode, "--schedule", "lagging").ends(0) for mode in ("known", "math"))
    peaks = [re.search(r"process \d+ +(.*)", result.err)[1] for result in (known, math)]
    math.check(peaks[0] == peaks[1], str(peaks))


# night: compiles kernels by Triton and by Inductor; exec_kernels holds by day which arguments a kernel writes
def test_known():
    """Mode known: what a kernel may only read stays known, what it writes is not, also where Inductor launches it."""
    result = program("""
add[(1,)](x, out, 64, BLOCK=64)
print(x.sum().item())
torch.compile(lambda y: y * 2 + 1)(x)
print(x.sum().item())
print(out.sum().item())""").ends(0)
    result.check(result.out == "2016.0\n2016.0\n1.0\n", "only what is written is unknown: 1.0 is the answer to that")


# night: compiles kernels that are refused
def test_refused():
    """What the interpreter does not compute is refused in one line; the same process computes and compiles other kernels, also in graphs."""
    result = program("""
for kernel in (lambda: by_instruction[(1,)](x, BLOCK=64), lambda: by_round[(1,)](x, BLOCK=64)):
    try:
        kernel()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
""", "--mode", "math").ends(0)
    lines = result.out.splitlines()
    result.check(len(lines) == 2 and lines[0].startswith("kernel by_instruction cannot be computed in mode math by Triton's interpreter") and "inline_asm" in lines[0], "by name")
    result.check("libdevice.round" in lines[1], "PyTorch's function of that name rounds halves to even")
    result = program("""
add[(1,)](x, out, 64, BLOCK=64)
assert torch.equal(out, x + 1)
add[(2,)](x.half(), out, 64, BLOCK=32)  # compiled anew
print(int(out.sum()))""", "--mode", "math").ends(0)
    result.check(result.out == "2080\n", "numbers")
    result = program("""
double = torch.compile(lambda y: y * 2 + 1)
double(x)
graph, kept = torch.cuda.CUDAGraph(), torch.cuda.memory_allocated()
with torch.cuda.graph(graph):
    other = x.clone()
    add[(1,)](other, out, 64, BLOCK=64)
    doubled = double(out)
    del other
print(out.sum().item())
for value in 1, 5:
    x.fill_(value)
    graph.replay()
    print(out.sum().item(), doubled.sum().item())""", "--mode", "math").ends(0)
    result.check(result.out.splitlines()[1:] == [f"{64.0 * (value + 1)} {64.0 * (2 * (value + 1) + 1)}" for value in (1, 5)], f"each launch of a graph computes again: {result.out}")


