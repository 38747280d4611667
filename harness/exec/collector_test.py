"""Tensors in cycles of references live until Python's collector runs, which a count of new objects decides. Tidemark's own objects are not counted, and torch.compile does not
see what it does; what only cycles hold at the peak is said."""
import random
import sys

from testing.said import FOLDER, SERVER, Said, drawn, python, seed

ALONE = {"TIDEMARK_EXEC_SETTINGS": "{}"}  # a Python of its own: in a copy of one that has imported torch the count begins elsewhere

PROGRAM = """
import gc, random, sys
import torch
from torch import nn
gc.disable()
draws = random.Random(int(sys.argv[1]))
if draws.random() < 0.7:
    gc.enable()
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.act = nn.Linear(width, width), nn.ReLU()
    def forward(self, x, scale=1):
        x = self.act(self.up(x)) * scale
        return Twice.apply(x) if cycles else x
cycles, width, way = draws.random() < 0.5, draws.choice((32, 64)), draws.choice(("plain", "range", "evaluate", "accumulate"))
model = nn.Sequential(*[Block(width) for _ in range(draws.randint(1, 4))]).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=draws.choice((0, 0.9)))
x = torch.ones(8, width, device="cuda")
def count():
    # At an allocation of the program's, which is this one.
    counts.append((*gc.get_count(), torch.empty(1, device="cuda").is_cuda and torch.cuda.memory_allocated()))
counts = []
def forward():
    if way == "range":
        with torch.profiler.record_function("own"):
            return model(x)
    if way == "evaluate":
        with torch.no_grad():
            model(x)
    if way == "accumulate":
        model(x).sum().backward()
    return model(x)
import types
if draws.random() < 0.5:  # as torch.compile
    for module in [one for name, one in sorted(sys.modules.items()) if name.startswith("torch.")]:
        for one in list(vars(module).values()):
            for function in list(vars(one).values()) if type(one) is type else [one]:
                if type(function) is types.FunctionType:
                    object.__getattribute__(function, "__dict__"), function.__annotations__
    count()
kept = [tuple(range(1, size)) for size in range(1, 20) for _ in range(3)], [{} for _ in range(9)], [[] for _ in range(9)]  # of what Python keeps to use again
count()
def step():
    def inner():
        return forward()
    y = inner()
    count()
    y.sum().backward()
    count()
for number in range(10):
    step()
    optimizer.step()
    count()
    optimizer.zero_grad()
    count()
for one in counts:
    print(*one)
"""


# night: three runs; exec_collector_counts has one flag by day
def test_flags():
    """Python's collector runs by a count of new objects. With each flag that count is the same at a drawn program's allocations: after the imports of its optimizer, where every
    function of PyTorch is asked for its attributes, and after the searches for holders."""
    flags = {"report": ("--report", FOLDER / "report", "--force"), "all": ("--report", FOLDER / "report", "--force", "--events", "all"), "races": ("--races", "on"),
             "both": ("--report", FOLDER / "report", "--force", "--races", "on")}
    compare_counts(*drawn(flags.values(), 2), **ALONE, PYTHONHASHSEED=str(seed() % 1000))  # else the order of sets differs, and what PyTorch's imports make of them


def test_counts():
    """Likewise, in copies of one process."""
    compare_counts(("--report", FOLDER / "counts"))


def compare_counts(*flags, **environment):
    number, program = seed(), FOLDER / "cycles.py"
    program.write_text(PROGRAM)
    plain = Said("--", sys.executable, program, number, **environment).ends(0)
    for words in flags:
        result = Said(*words, "--", sys.executable, program, number, **environment).ends(0)
        differ = [lines for lines in zip(plain.out.splitlines(), result.out.splitlines()) if lines[0] != lines[1]]
        result.check(plain.out == result.out, f"TIDEMARK_TEST_SEED={number} {words}: {differ[:3]}")


COMPILED = """
import logging, sys
import torch
from torch import nn
import torch._dynamo.utils
way = sys.argv[1]
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(32, 32)
    def forward(self, x):
        x = self.up(x).relu()
        if way == "breaks":
            torch._dynamo.graph_break()
            print("eager", end=" ")
        return x + self.up(x)
model = nn.Sequential(*[Block() for _ in range(3)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), 0.1)
def step(x):
    with torch.profiler.record_function("own"):
        loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if way == "blocks":
    for block in model:
        block.compile(backend="aot_eager")
else:
    model = torch.compile(model, backend="aot_eager")
for rows in 8, 8, 16:
    step(torch.ones(rows, 32, device="cuda"))
frames, breaks = (torch._dynamo.utils.counters[name] for name in ("frames", "graph_break"))
print(dict(frames), sum(breaks.values()), torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


# night: torch.compile
def test_compiled():
    """What torch.compile makes of modules, and what it says, is the same with a report. A compiled function in which an optimizer steps has the report's hooks."""
    program = FOLDER / "compiled.py"
    program.write_text(COMPILED)
    for way in drawn(("model", "breaks", "blocks"), 2):
        plain = Said("--", sys.executable, program, way).ends(0)
        result = Said("--report", FOLDER / "report", "--force", "--", sys.executable, program, way).ends(0)
        result.check(result.out == plain.out, f"{way}: {plain.out}")
        result.check(("Warning" in result.err, "tidemark_" in result.err) == ("Warning" in plain.err, False), f"{way}: {plain.err}")


SURROUNDED = """
import random, sys
import torch
import tidemark_collector
draws = random.Random(int(sys.argv[1]))
parameters = draws.choice(["x, y", "x, y=2", "x, *, y=2", "x, *rest, y=2", "x, y=2, **more", "x, /, y"])
space = {}
exec(f"def scaled({parameters}):\\n    return x * y", space)
calls = []
scaled = tidemark_collector.own.around(space["scaled"], lambda *words, **more: calls.append(words))
with_y = "y=3" if "*, " in parameters or "*rest" in parameters else "3"
exec(f"def step(x):\\n    return scaled(x, {with_y}) + 1", {"scaled": scaled}, space)
x = torch.ones(4, device="cuda")
eager, compiled = space["step"](x), torch.compile(space["step"], backend="eager", fullgraph=True)(x)
print(len(calls), eager.shape == compiled.shape)
"""


# night: torch.compile
def test_compiled_surrounded():
    """A compiled function that calls one which tidemark surrounds is one graph, of what is surrounded; the collector's module has none of its names."""
    program = FOLDER / "surrounded.py"
    program.write_text(SURROUNDED)
    for number in random.sample(range(10 ** 6), 3):
        result = Said("--report", FOLDER / "report", "--force", "--", sys.executable, program, number).ends(0)
        result.check(result.out == "1 True\n", f"{number}: {result.out}")


def test_garbage():
    """What only cycles hold at the peak, by a drawn number of cycles; not what is read after the peak, and not what is held until the end."""
    lost, later, kept = (random.randint(1, 9) for _ in range(3))
    result = python(f"""
import gc
gc.disable()
class Node:
    def __init__(self):
        self.tensor, self.own = torch.empty(1 << 20, dtype=torch.int8, device="cuda"), self
later, kept = [Node() for _ in range({later})], [torch.empty(1 << 20, dtype=torch.int8, device="cuda") for _ in range({kept})]
for _ in range({lost}):
    Node()
torch.empty(64 << 20, dtype=torch.int8, device="cuda")
for node in later:
    node.tensor.add_(1)
del later, node
gc.enable()
{random.choice(("", "gc.collect()"))}
""", "--report", FOLDER / "garbage", "--force").ends(0)
    result.check(f"freed by Python's collector alone (cycles of references): {lost}.00 of {64 + lost + later + kept}.00 MiB" in result.err, (lost, later, kept))


def test_imports():
    """In a copy of a process that has imported torch the collector passes over what was imported, to the copy's end: a collection of these objects takes 0.2 s."""
    result = python("""
import gc, os
class Last:
    def __del__(self, count=gc.get_freeze_count, write=os.write):
        write(1, b"apart" if count() > 100_000 else b"in sight")
last, x = Last(), torch.ones(1, device="cuda")
""", "--report", FOLDER / "imports").ends(0)
    result.check(result.out == ("apart" if SERVER and sys.version_info < (3, 14) else "in sight"), "whether the imports are out of its sight at the end")


def test_read_again():
    """A rollout that later updates read, and a carried state, were needed; an output that nothing reads again was not."""
    program = """
from torch import nn
model = nn.Sequential(nn.Linear(512, 512), nn.Tanh()).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
state, kept = torch.zeros(512, 512, device="cuda"), []
for step in range(9):
    if step % 3 == 0 and ROLLOUT:
        with torch.no_grad():
            rollout = [model(state) for _ in range(4)]  # all of them are read in three updates
    out = model(state)
    loss = out.sum() + (sum(one.sum() for one in rollout) if ROLLOUT else 0)
    loss.backward()
    if step % 3 == 2 and ROLLOUT:
        rollout.clear()
    if STATE:
        state = out.detach()
    if KEPT:
        kept.append(out)  # as a state the next step reads it, and none after that
    del out
    optimizer.step()
    optimizer.zero_grad()
"""
    draws = {"ROLLOUT": random.random() < 0.5, "STATE": random.random() < 0.5, "KEPT": random.random() < 0.5}
    result = python("; ".join(f"{name} = {value}" for name, value in draws.items()) + program, "--report", FOLDER / "again", "--force").ends(0)
    line = next((line for line in result.err.splitlines() if "activations that outlive the backward" in line and " of " in line), "")
    result.check(("MiB" in line and "<" not in line) == draws["KEPT"], draws)
    result.check(not draws["KEPT"] or "      held by `kept` in <module> (<string>:" in result.err, "which object holds them")


def test_followed_twice():
    """What is followed may be followed again: a record's phases and those of a test are of the same functions of PyTorch."""
    python("""
import tidemark_collector
calls, around = [], tidemark_collector.own.around
def f(x, *, y=3):
    return x + y
once = around(f, lambda x, **_: calls.append("first"), lambda *_, **__: calls.append("end of first"))
twice = around(once, lambda x, **_: calls.append("second"))
beside = around(f, lambda x, **_: calls.append("beside"))
for function, sequence in ((once, ["first", "end of first"]), (twice, ["second", "first", "end of first"]), (beside, ["beside"])):
    for call in (function, lambda x, **more: function(x, **more)):
        calls.clear()
        assert (call(1), call(1, y=5)) == (4, 6) and calls == 2 * sequence, (function, calls)
""", "--report", FOLDER / "followed").ends(0)
