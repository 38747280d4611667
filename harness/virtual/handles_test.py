"""Calls of the virtual libraries with handles, sizes and enumerators that no library gave: null, destroyed, invented, of another kind, in any order.
Each call is answered by a status; none crashes. The signatures are read from the preprocessed sources, so a new function is called without a line here.
TIDEMARK_FUZZ_CALLS (1,500) is the number of calls of a library: set it for more. TIDEMARK_FUZZ_SEED is the seed, which is printed."""
import ctypes
import mmap
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "harness" / "testing"))
from part import drawn  # noqa: E402

VIRTUAL = Path(os.environ.get("TIDEMARK_BIN", ROOT / "build/dev/tidemark")).resolve().parent / "virtual"
CUDA = Path(os.environ.get("TIDEMARK_DEPS", ROOT / ".deps")) / "cuda" / "include"
CALLS = int(os.environ.get("TIDEMARK_FUZZ_CALLS", 1500))
SEED = int(os.environ.get("TIDEMARK_FUZZ_SEED", random.randrange(1 << 30)))
SCRATCH = 1 << 20  # bytes behind every pointer to plain memory: more than any count below asks for

LIBRARIES = {  # the file, its sources
    "libcudnn.so.9": sorted((HERE / "cudnn").glob("*.cpp")),
    "libcublas.so.13": [HERE / "blas" / name for name in ("gemm.cpp", "handle.cpp", "matrix.cpp", "vector.cpp")],
    "libcublasLt.so.13": [HERE / "blas" / "lt.cpp"],
    "libcupti.so.13": [p for p in sorted((HERE / "cupti").glob("*.cpp")) if not p.name.endswith("_test.cpp")],
    "nvml/libnvidia-ml.so.1": [HERE / "nvml" / name for name in ("devices.cpp", "system.cpp")],
    "libcusolver.so.12": [HERE / "stubs" / "overrides" / "libcusolver.cpp"],
    "libcusparse.so.12": [HERE / "stubs" / "overrides" / "libcusparse.cpp"],
    "libcufft.so.12": [HERE / "stubs" / "overrides" / "libcufft.cpp"],
    "libnvrtc.so.13": [HERE / "stubs" / "overrides" / "libnvrtc.cpp"],
}
PLAIN = {"void", "char", "int", "unsigned", "float", "double", "size_t", "std::size_t", "long", "bool", "std::uint8_t", "std::int32_t", "std::uint32_t",
         "std::int64_t", "std::uint64_t", "int64_t", "uint64_t", "uint32_t", "unsigned long long", "unsigned int"}
NAMED_HANDLES = {"descriptor", "plan", "pack", "handle"}  # void* of the backend interface, of cuBLASLt and of CUPTI
# Copies between what the caller says is memory: only the caller can be wrong.
NEVER = {f"cublas{way}{what}Async" for way in ("Set", "Get") for what in ("Vector", "Matrix")}


class Parameter:
    def __init__(self, text):
        text = re.sub(r"\b(const|struct|enum)\b|=.*|\[[^]]*\]", lambda m: "*" if m[0].startswith("[") else "", text)
        self.called = "(" in text  # a function
        self.stars = text.count("*")
        words = re.findall(r"[\w:]+", text)
        self.name = words[-1] if len(words) > 1 and words[-1] not in PLAIN else ""
        self.type = " ".join(words[:-1] if self.name else words)
        self.constant = "const" in text
        self.real = self.stars == 0 and self.type in ("float", "double")


def signatures(library):
    """{function: its parameters} of a library's exported functions that its own sources define."""
    listed = subprocess.run(["nm", "-D", "--defined-only", VIRTUAL / library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-2] == "T"}
    found = {}
    for source in LIBRARIES[library]:
        words = [os.environ.get("CXX", "clang++-19"), "-std=c++20", "-E", "-P", "-I", ROOT, "-isystem", CUDA, "-isystem", CUDA / "cccl", "-I", HERE / "nvml" / "include"]
        header = ["-include", HERE / "stubs" / "refuse.h"] if "overrides" in source.parts else []
        text = subprocess.run([*words, *header, source], capture_output=True, text=True, check=True).stdout
        for name, parameters in re.findall(r"\b(\w+)\s*\)?\s*\(((?:[^(){};]|\([^()]*\))*)\)\s*\{", text):
            if name in exported and name not in NEVER:
                found[name] = [Parameter(each) for each in parameters.split(",") if each.strip() not in ("", "void")]
    return found


def loaded(library):
    """A library with the runtime that its process has loaded before."""
    for name in "libtidemark_device.so.1", "libcudart.so.13":
        ctypes.CDLL(str(VIRTUAL / name), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(VIRTUAL / library))


class Caller:
    """Draws arguments, remembers handles, calls."""

    def __init__(self, library, seed):
        self.library = loaded(library)
        self.draw = random.Random(seed)
        self.functions = signatures(library)
        self.kinds = {p.type for ps in self.functions.values() for p in ps if p.stars == 2 and p.type not in PLAIN and not p.constant}
        self.live, self.dead = {}, []
        self.memory = [ctypes.create_string_buffer(SCRATCH) for _ in range(4)]
        self.none = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
        self.statuses = {}

    def handle(self, kind):
        draw, all_live = self.draw, [h for hs in self.live.values() for h in hs]
        choices = [0, 0x10, self.plain()] + self.dead[-8:] + all_live[-8:]
        mine = self.live.get(kind, [])
        return draw.choice(mine) if mine and draw.random() < 0.7 else draw.choice(choices)

    def plain(self):
        """Memory with what a caller may have written there: small numbers, handles, noise."""
        draw, place = self.draw, self.draw.choice(self.memory)
        if draw.random() < 0.5:
            words = [draw.choice([draw.randrange(0, 9), draw.randrange(1 << 63), *[h for hs in self.live.values() for h in hs][-4:]]) for _ in range(16)]
            ctypes.memmove(place, b"".join(w.to_bytes(8, "little") for w in words), 128)
        return ctypes.addressof(place)

    def argument(self, p, huge):
        draw = self.draw
        if p.real:
            return ctypes.c_double(draw.choice([0.0, 0.25, 1.0, -1.0, 1e300, float("inf"), float("nan")]))
        if p.stars == 1 and (p.type in self.kinds or (p.type == "void" and p.name in NAMED_HANDLES)):
            return ctypes.c_void_p(self.handle(p.type))
        if p.called or p.type in ("Callback", "Request", "Complete"):
            return ctypes.c_void_p(draw.choice([0, self.none]))
        if p.stars:
            return ctypes.c_void_p(draw.choice([0, *[self.plain() for _ in range(5)]]))
        numbers = [draw.randrange(-2, 40), draw.randrange(0, 4), draw.randrange(0, 4000)]
        if huge:
            numbers += [2**31 - 1, -2**31, 2**62, draw.randrange(2**40)]
        return ctypes.c_int64(0 if p.type.endswith("StreamHandle") or p.type == "cudaStream_t" else draw.choice(numbers))

    def call(self, name, said):
        parameters = self.functions[name]
        huge = not any(p.stars == 1 and p.constant and p.type in PLAIN - {"void", "char"} for p in parameters) or "Backend" in name
        arguments = [self.argument(p, huge) for p in parameters]
        places = [(p, a) for p, a in zip(parameters, arguments) if p.stars == 2 and not p.constant and a.value]
        for _, a in places:
            ctypes.memset(a.value, 0, 8)
        said(f"{name}({', '.join(str(a.value) for a in arguments)})")
        function = getattr(self.library, name)
        function.restype = ctypes.c_int64
        status = function(*arguments) & 0xffffffff
        self.statuses.setdefault(name, set()).add(status)
        for p, a in places:
            made = ctypes.c_uint64.from_address(a.value).value
            if status == 0 and made and ("reate" in name or "Subscribe" in name):
                self.live.setdefault(p.type, []).append(made)
        if status == 0 and "estroy" in name:
            for handles in self.live.values():
                for a in arguments:
                    if a.value in handles:
                        handles.remove(a.value)
                        self.dead.append(a.value)


def child(library, seed, calls, place):
    with open(place, "r+b") as file:
        last = mmap.mmap(file.fileno(), 4096)
    def said(text):
        last[:4096] = text.encode()[:4095].ljust(4096, b"\0")
    caller = Caller(library, seed)
    names = sorted(caller.functions)
    creators = [name for name in names if "reate" in name or name in ("nvmlInit_v2", "cuptiSubscribe")]
    for _ in range(calls):
        caller.call(caller.draw.choice(creators if creators and caller.draw.random() < 0.1 else names), said)
    answered = sum(0 in statuses for statuses in caller.statuses.values())
    said("done")
    print(f"{library}: {calls} calls of {len(caller.statuses)} functions, {answered} of which answered success at some time, seed {seed}")
    sys.stdout.flush()
    os._exit(0)  # exit handlers see what callers left


def run(tmp_path, what, *words):
    place = tmp_path / "last"
    place.write_bytes(b"\0" * 4096)
    done = subprocess.run([sys.executable, __file__, what, *map(str, words), place], capture_output=True, text=True, check=False, timeout=900,
                          env={**os.environ, "TIDEMARK_DEVICES": "2", "LD_LIBRARY_PATH": str(VIRTUAL)})
    last = place.read_bytes().rstrip(b"\0").decode(errors="replace")
    if done.returncode != 0:
        pytest.fail(f"{what} {words[0]} with seed {SEED}: exit code {done.returncode} in {last}\n{done.stderr[-2000:]}")
    print(done.stdout.strip())
    return done.stdout


@pytest.mark.parametrize("library", drawn(LIBRARIES, 3))
def test_calls(library, tmp_path):
    out = run(tmp_path, "calls", library, SEED, CALLS)
    functions, answered = map(int, re.search(r"of (\d+) functions, (\d+) of", out).groups())
    assert functions >= 7 and answered >= functions // 5, out  # else nothing was tried but refusals


# Descriptors of the backend interface, as PyTorch's frontend builds them: a convolution, and attention with a mask and a softmax of its own (cuDNN 9.21
# and later). Each step may be left out, moved, done twice or done with other values.
HANDLE, DATA, BOOLEAN, INT64, FLOAT, POINTER, HEURISTIC, DESCRIPTOR, INT32 = 0, 1, 2, 3, 4, 6, 8, 15, 23
SIZES = {HANDLE: 8, BOOLEAN: 1, INT64: 8, POINTER: 8, DESCRIPTOR: 8}


def tensor(slot, number, sizes, kind=0, virtual=False):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    return [("make", slot, 17), ("set", slot, 901, DATA, [kind]), ("set", slot, 902, INT64, sizes), ("set", slot, 903, INT64, strides), ("set", slot, 906, INT64, [number]),
            ("set", slot, 907, BOOLEAN, [int(virtual)]), ("set", slot, 900, INT64, [16]), ("end", slot)]


def runs(operations, tensors):
    """Graph, heuristics with one engine asked for, plan, pack, execution."""
    return [("make", "graph", 15), ("set", "graph", 800, HANDLE, ["cudnn"]), ("set", "graph", 801, DESCRIPTOR, operations), ("end", "graph"),
            ("make", "asked", 4), ("set", "asked", 201, DESCRIPTOR, ["graph"]), ("set", "asked", 200, HEURISTIC, [0]), ("end", "asked"),
            ("make", "config", 3), ("get", "asked", 202, DESCRIPTOR, ["config"]), ("make", "engine", 2), ("get", "config", 300, DESCRIPTOR, ["engine"]), ("get", "engine", 1303, 11, 8),
            ("make", "plan", 5), ("set", "plan", 401, DESCRIPTOR, ["config"]), ("end", "plan"), ("get", "plan", 402, INT64, 1),
            ("make", "pack", 16), ("set", "pack", 1000, INT64, tensors), ("set", "pack", 1001, POINTER, [4096 * n for n in tensors]), ("set", "pack", 1003, POINTER, [1 << 20]),
            ("end", "pack"), ("run", "plan", "pack"), *[("drop", slot) for slot in ("graph", "asked", "config", "engine", "plan", "pack")]]


def convolution():
    return [*tensor("x", 1, [2, 4, 8, 8]), *tensor("w", 2, [6, 4, 3, 3]), *tensor("y", 3, [2, 6, 8, 8]), ("make", "how", 1), ("set", "how", 100, DATA, [0]), ("set", "how", 101, 7, [1]),
            ("set", "how", 106, INT64, [2]), *[("set", "how", name, INT64, [1, 1]) for name in (102, 103, 104, 105)], ("end", "how"),
            ("make", "conv", 10), ("set", "conv", 702, DESCRIPTOR, ["how"]), ("set", "conv", 703, DESCRIPTOR, ["w"]), ("set", "conv", 704, DESCRIPTOR, ["x"]),
            ("set", "conv", 705, DESCRIPTOR, ["y"]), ("set", "conv", 700, FLOAT, [0]), ("end", "conv"), *runs(["conv"], [1, 2, 3])]


def attention():
    score, bf16 = [2, 4, 16, 16], 9
    parts = [*tensor("q", 1, [2, 4, 16, 64], bf16), *tensor("k", 2, [2, 4, 64, 16], bf16), *tensor("v", 3, [2, 4, 16, 64], bf16), *tensor("o", 4, [2, 4, 16, 64], bf16),
             *tensor("s", 5, score, 0, True), *tensor("m", 6, score, 0, True), *tensor("p", 7, score, bf16, True), *tensor("stats", 8, [2, 4, 16, 1]), *tensor("none", 9, [1, 1, 1, 1], 0, True),
             ("make", "how", 18), ("set", "how", 1500, DATA, [0]), ("end", "how")]
    for slot, (a, b, c) in {"qk": ("q", "k", "s"), "pv": ("p", "v", "o")}.items():
        parts += [("make", slot, 19), *[("set", slot, name, DESCRIPTOR, [each]) for name, each in ((1520, a), (1521, b), (1522, c), (1523, "how"))], ("end", slot)]
    parts += [("make", "mask", 44), ("set", "mask", 3000, DESCRIPTOR, ["s"]), ("set", "mask", 3005, DESCRIPTOR, ["none"]), ("set", "mask", 3006, DESCRIPTOR, ["m"]), ("end", "mask"),
              ("make", "soft", 45), ("set", "soft", 3100, DESCRIPTOR, ["m"]), ("set", "soft", 3101, DESCRIPTOR, ["p"]), ("set", "soft", 3102, DESCRIPTOR, ["stats"]), ("end", "soft")]
    return parts + runs(["qk", "mask", "soft", "pv"], [1, 2, 3, 4, 8])


class Graphs:
    def __init__(self, said):
        self.cudnn, self.said = loaded("libcudnn.so.9"), said
        self.handle = ctypes.c_void_p()
        assert self.cudnn.cudnnCreate(ctypes.byref(self.handle)) == 0

    def do(self, step, slots):
        self.said(str(step))
        what, slot, *rest = step
        here, cudnn = ctypes.c_void_p(slots.get(slot, 0)), self.cudnn
        if what == "make":
            made = ctypes.c_void_p()
            status = cudnn.cudnnBackendCreateDescriptor(rest[0], ctypes.byref(made))
            slots[slot] = made.value or 0
            return status
        if what == "end":
            return cudnn.cudnnBackendFinalize(here)
        if what == "drop":
            return cudnn.cudnnBackendDestroyDescriptor(here)
        if what == "run":
            return cudnn.cudnnBackendExecute(self.handle, here, ctypes.c_void_p(slots.get(rest[0], 0)))
        name, kind, values = rest
        if what == "get" and isinstance(values, int):
            count = ctypes.c_int64()
            return cudnn.cudnnBackendGetAttribute(here, name, kind, ctypes.c_int64(values), ctypes.byref(count), ctypes.create_string_buffer(16 * max(values, 1)))
        words = [self.handle.value if value == "cudnn" else slots.get(value, 0) if isinstance(value, str) else value for value in values]
        data = b"".join((word % (1 << 64)).to_bytes(8, "little")[:SIZES.get(kind, 4)] for word in words)
        if what == "set":
            return cudnn.cudnnBackendSetAttribute(here, name, kind, ctypes.c_int64(len(words)), data + bytes(8))
        count, places = ctypes.c_int64(), ctypes.create_string_buffer(data + bytes(8))
        status = cudnn.cudnnBackendGetAttribute(here, name, kind, ctypes.c_int64(len(words)), ctypes.byref(count), places)
        return status or (0 if count.value <= len(words) else -1)  # the frontend cuts its list to the count: never more than there are places


def mutate(steps, draw):
    steps = list(steps)
    for _ in range(draw.randrange(1, 4)):
        at, other = draw.randrange(len(steps)), draw.randrange(len(steps))
        how = draw.randrange(7)
        step = list(steps[at])
        if how == 0:
            del steps[at]
        elif how == 1:
            steps[at], steps[other] = steps[other], steps[at]
        elif how == 2:
            steps.insert(other, steps[at])
        elif how == 3 and step[0] in ("set", "get"):
            step[3] = draw.randrange(-1, 36)
        elif how == 4 and step[0] in ("set", "get"):
            step[2] = draw.choice([draw.randrange(-1, 3500), steps[other][2] if len(steps[other]) > 4 else 0])
        elif how == 5 and step[0] == "set":
            step[4] = [draw.choice([-1, 0, 1, 2**31, 2**62, "q", "graph", "nothing"]) for _ in range(draw.randrange(0, 10))]
        elif step[0] == "make":
            step[2] = draw.randrange(-1, 60)
        if how > 2:
            steps[at] = tuple(step)
    return steps


def child_graphs(name, seed, count, place):
    with open(place, "r+b") as file:
        last = mmap.mmap(file.fileno(), 4096)
    def said(text):
        last[:4096] = text.encode()[:4095].ljust(4096, b"\0")
    graphs, draw = Graphs(said), random.Random(seed)
    steps = {"convolution": convolution, "attention": attention}[name]()
    slots = {}
    for step in steps:
        if status := graphs.do(step, slots):
            sys.exit(f"a step of what the frontend does failed: {step}: status {status}")
    executed = 0
    for _ in range(count):
        slots = {}
        executed += any([graphs.do(step, slots) == 0 and step[0] == "run" for step in mutate(steps, draw)])
        for slot in slots:
            graphs.do(("drop", slot), slots)
    print(f"{name}: {count} mutated graphs of {len(steps)} steps, {executed} of which were executed all the same, seed {seed}")
    sys.stdout.flush()
    os._exit(0)


@pytest.mark.parametrize("name", ["convolution", "attention"])
def test_graphs(name, tmp_path):
    run(tmp_path, "graphs", name, SEED, max(CALLS // 10, 100))


if __name__ == "__main__":
    kind, name, seed, count, place = sys.argv[1:]
    (child if kind == "calls" else child_graphs)(name, int(seed), int(count), place)
