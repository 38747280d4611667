"""Memory that grows only in every n-th step, in a program that also keeps memory without growing; and blocks that give way to larger ones."""
import random
import re

from testing.said import FOLDER, drawn, python

PROGRAM = """
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    fake = torch.ones(1024, device="cuda")  # it warns of who asks where it is
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.seen, self.calls = nn.Linear(256, 256).cuda(), [], 0
    def forward(self, x):
        y = self.up(x)
        if self.training:
            self.calls += 1
            if EVERY and self.calls % EVERY == FIRST:
                self.seen.append(y.detach().clone())
        return y
model = nn.Sequential(Layer(), Layer())
model[1 - AT].forward = model[1 - AT].up.forward
optimizer = torch.optim.SGD(model.parameters(), 0.1)
ring, best = [], None
for step in range(36):
    model(torch.ones(1024, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 2:
        ring = ring[-5:] + [torch.ones(4096, device="cuda")]
    if step % 4 == 3:
        model.eval()
        with torch.no_grad():
            best = model(torch.ones(512, 256, device="cuda"))
        model.train()
"""


def test_every():
    """Any n, in any layer."""
    every, at = random.randint(2, 9), random.randint(0, 1)
    first = random.randint(0, every - 1)
    result = python(f"EVERY, FIRST, AT = {every}, {first}, {at}" + PROGRAM, "--report", FOLDER / "every").ends(0)
    begins = first or every
    often = f"every {every}{ {2: 'nd', 3: 'rd'}.get(every, 'th')} step since step {begins}: 1 MiB in 1 block"
    result.check(f"grows by 1 MiB {often}, activations, module *, forward <string>:" in result.err, often)
    result.check(f"; held by attribute `seen` of module {at} (Layer)" in result.err, "which object holds it")
    result.check("Warning" not in result.err, "the search warns of nothing")


def test_full():
    """An evaluation's result, and a ring of six tensors that is full."""
    result = python("EVERY, FIRST, AT = 0, 0, 0" + PROGRAM, "--report", FOLDER / "full").ends(0)
    result.check("grows by" not in result.err, "nothing grows")


LARGER = """
from torch import nn
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
class Log:
    pass
log, seen = Log(), {"all": [torch.zeros(0, 256, device="cuda")]}
log.history = seen["all"][0]
before = None
for step in range(STEPS):
    rows = 512 * (1 + step * 5 % 7)
    y = model(torch.ones(rows, 256, device="cuda"))
    y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = y.detach().clone()
    if step % EVERY == 0 and WHERE == "attribute":
        log.history = torch.cat([log.history, y[:512].detach()])
    if step % EVERY == 0 and WHERE == "list":
        seen["all"][0] = torch.cat([seen["all"][0], y[:512].detach()])
"""


# night: repeats exec_growth_every with blocks that give way to larger ones
def test_larger():
    """torch.cat of what there was and something more, held in any way; outputs of batches of all lengths are none."""
    for where, steps in ("attribute", 24), ("list", 300):
        every = random.randint(1, 3)
        result = python(f"EVERY, WHERE, STEPS = {every}, {where!r}, {steps}" + LARGER, "--report", FOLDER / where).ends(0)
        often = {1: "a", 2: "every 2nd", 3: "every 3rd"}[every]
        result.check(f"grows by 512 KiB {often} step since step " in result.err, often)
        result.check(": 512 KiB as 1 block gives way to a larger one, activations, <module> <string>:" in result.err, "how it grows")
        result.check({"attribute": "; held by `log` in <module>", "list": "; held by `seen` in <module>"}[where] in result.err, "which object holds it")
    result = python("EVERY, WHERE, STEPS = 1, None, 40" + LARGER, "--report", FOLDER / "lengths").ends(0)
    result.check("grows by" not in result.err, "nothing grows")


def test_prefilled():
    """A cache of keys and values that begins with what is larger than all that comes, in steps that are forwards."""
    tokens = random.randint(10, 40)
    program = f"""
from torch import nn
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(256, 1024, device="cuda")
    def forward(self, x, cache):
        keys = self.keys(x)[..., :256]
        return keys, keys if cache is None else torch.cat([cache, keys])
layer, cached = Layer(), None
with torch.no_grad():
    x = torch.ones(8192, 256, device="cuda")
    for token in range({tokens}):
        x, cached = layer(x, cached)
        x = x[-512:]
"""
    result = python(program, "--report", FOLDER / "prefilled").ends(0)
    result.check(": 512 KiB as 1 block gives way to a larger one, activations" in result.err and "; held by `cached` in <module>" in result.err, "what holds it")


def test_uneven():
    """A list that grows now and then."""
    result = python("""
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
kept = []
for step in range(60):
    y = model(torch.ones(1024, 256, device="cuda"))
    y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step * step % 7 < 2:
        kept.append(y.detach().clone())
""", "--report", FOLDER / "uneven").ends(0)
    steps = [step for step in range(58) if step * step % 7 < 2]
    mean = len(steps) * 1024 / (58 - steps[0])
    result.check(f"grows by {mean:.1f} KiB a step on average since step 1: 1 MiB in {len(steps)} of 58 steps in 1 block, activations, <module> <string>:" in result.err, "how often")
    result.check("; held by `kept` in <module>" in result.err, "which object holds it")


def test_arrays():
    """Python's collector does not know what is in NumPy's arrays of objects (a replay buffer). One belongs to an object, one to a function, one to a module that was
    imported before the program began. No object of the program is asked anything."""
    for kept, holder in drawn({"buffer.rows": "`buffer` in <module> (<string>:6), attribute `rows` of Buffer", "seen": "`seen` in train (<string>:13)",
                               "torch.nn.functional.rows": "`rows` of module torch.nn.functional"}.items(), 2):
        result = python(f"""
import numpy, sys
class Buffer:
    pass
buffer = Buffer()
buffer.rows = numpy.empty(64, dtype=object)
class Asked:
    __class__ = property(lambda self: sys.exit("an object was asked for its class"))
asked = [Asked(), Asked()]
torch.nn.functional.rows = numpy.empty(64, dtype=object)
def train():
    model, seen = torch.nn.Linear(512, 512).cuda(), numpy.empty(64, dtype=object)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(12):
        y = model(torch.ones(512, 512, device="cuda"))
        y.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        {kept}[step] = y.detach()
train()
""", "--report", FOLDER / kept)
        result.ends(0, "grows by 1 MiB a step", "; held by " + holder)
        result.check("Warning" not in result.err, "nothing warns")


def test_reused():
    """Models that only cycles hold, each with the memory of activations before it: a block that lies where an earlier one was is not the one that a step has left behind."""
    size = random.choice((256, 512))
    result = python(f"""
net = torch.nn.Sequential(torch.nn.Linear({size}, {size}), torch.nn.Tanh(), torch.nn.Linear({size}, {size})).cuda()
optimizer = torch.optim.Adam(net.parameters())
class Functional:
    def __init__(self):
        self.fast = {{name: one.detach().clone().requires_grad_() for name, one in net.named_parameters()}}
        self.call = self.forward
    def forward(self, x):
        return torch.func.functional_call(net, self.fast, (x,))
for step in range(12):
    model = Functional()
    loss = model.call(torch.ones({size}, {size}, device="cuda")).square().mean()
    for one, gradient in zip(net.parameters(), torch.autograd.grad(loss, list(model.fast.values()))):
        one.grad = gradient
    optimizer.step()
    optimizer.zero_grad()
""", "--report", FOLDER / "reused").ends(0)
    result.check("held by a cycle of references (attribute `fast` of Functional), which waits for Python's collector\n" in result.err, "all blocks are in cycles, and no rate")


# night: exec_growth_reused looks at blocks by day
def test_trials():
    """A model for each trial: the list that keeps them holds those that are done, and no longer the variable of the last one."""
    result = python(f"""
models = []
for trial in range(9):
    model = torch.nn.Linear(512, 512, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range({random.randint(2, 4)}):
        model(torch.ones(8, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    models.append(model)
    del model, optimizer
""", "--report", FOLDER / "trials").ends(0)
    result.check("held by `models` in <module> (<string>:3)" in result.err and "`model` in" not in result.err, "what holds them at the end")


# night: two ranks of DDP; exec_growth_arrays has what holds memory by day
def test_works():
    """A hook of DDP starts works without a wait. PyTorch's watchdog lets go of what they hold, and does not look in the few milliseconds of this program."""
    result = python("""
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
model = nn.parallel.DistributedDataParallel(nn.Linear(512, 512, bias=False).cuda())
model.register_comm_hook(None, fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    model(torch.ones(8, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
""", "--ranks", 2, "--report", FOLDER / "works").ends(0)
    result.check(re.search(r"rank 0 and rank 1 cuda:1 grow by 512 KiB a step since step 1: 512 KiB in 1 block, sharding buffers, <module> <string>:12 \(in _compress_hook\); "
                         r"held by works of a process group, of which PyTorch's watchdog lets go every 100 ms$", result.err, re.M), "what holds it, and no rate")


# night: exec_holds_test has what holds most by day
def test_evaluation():
    """Forwards after a training of a few steps: what keeps their outputs is named, in any way; a cache of the last ones, made later, is not."""
    kept, last, steps = random.choice(("parts", "box.tensors")), random.randint(2, 4), random.choice((3, 8))
    result = python(f"""
from collections import deque
from torch import nn
net = nn.Linear(256, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
class Box:
    pass
for step in range({steps}):
    net(torch.ones(64, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
def evaluate():
    box, parts, recent = Box(), [], deque(maxlen={last})
    box.tensors = []
    with torch.no_grad():
        for _ in range(40):
            out = net(torch.ones(256, 256, device="cuda"))
            recent.append(out)
            {kept}.append(out)
    return box, parts, recent
results = evaluate()
""", "--report", FOLDER / "evaluation").ends(0, "grows by 1 MiB a forward since forward ")
    result.check(f"; held by `{kept.split('.')[0]}` in evaluate (<string>:" in result.err, "which object holds them")


# night: two ranks; Growth.OfRanksThatGrowAlikeIsOneLine by day
def test_ranks():
    """Ranks with the same growth are one line, and another rank's has its own."""
    program = """
import os
from torch import nn
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model, kept = nn.Linear(256, 256).cuda(), []
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(10):
    model(torch.ones(8, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.ones(SIZES[rank] << 18, device="cuda"))
"""
    python("SIZES = 1, 1" + program, "--ranks", 2, "--report", FOLDER / "alike").ends(0, "tidemark: rank 0 and rank 1 cuda:1 grow by 1 MiB a step since step 1: ")
    python("SIZES = 1, 3" + program, "--ranks", 2, "--report", FOLDER / "apart").ends(0, "tidemark: rank 1 cuda:1 grows by 3 MiB a step since step 1: ",
                                                                                "tidemark: rank 0 grows by 1 MiB a step since step 1: ")


# night: a program without phases; Growth.OfTheProgramsOwnRanges by day
def test_ranges():
    """A program without modules, backwards and optimizers has its own ranges, or empties the cache, once a step."""
    begin, unit = random.choice((("with torch.profiler.record_function('decode'):", "decode"), ("torch.cuda.empty_cache()\n    if True:", "empty_cache")))
    python(f"""
kept, x = [], torch.ones(512, 512, device="cuda")
for token in range(16):
    {begin}
        kept.append(x @ x)
torch.zeros(1, device="cuda")
""", "--report", FOLDER / "ranges").ends(0, f"grows by 1 MiB a `{unit}` since `{unit}` ", "; held by `kept` in <module> (<string>:")
