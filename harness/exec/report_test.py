"""Reports and texts of `tidemark exec` about small programs: --report, --compare, several schedules, races."""
import gzip
import json
import re
import subprocess
import sys

from testing.said import FOLDER, HERE, MIB, TIDEMARK, Said, python


# night: a dozen programs; exec_batch compares two by day, and compare_test holds the verdicts
def test_compare():
    base, other, half = FOLDER / "base.json", FOLDER / "other.json", FOLDER / "half.json"
    allocate = "a = torch.empty({} << 20, dtype=torch.uint8, device='cuda')"
    python(allocate.format(30), "--out", base).ends(0)
    for mib in 30, 20:
        python(allocate.format(mib), "--compare", base).ends(0, "--compare: no peak is higher than in")
    grew = python(allocate.format(32), "--compare", base, "--out", other)
    grew.ends(5, "FAIL --compare: program under calibrated process 1: memory/allocated: 30 MiB -> 32 MiB (+2 MiB, +6.67%) [threshold memory=0] (the worst of 3)\n")
    grew.check(grew.err.count("FAIL") == 1 and len(json.loads(other.read_text())["trials"][0]["verdicts"]) == 3, "three peaks, a line")
    python(allocate.format(32), "--compare", base, "--threshold", "memory=2MiB").ends(0)
    python(allocate.format(30), "--ranks", 2, "--compare", base).ends(5, "process 1 has no peak in this run", "rank 1 has no peak in the other run")
    python(allocate.format(30) + "\nimport os, time\ntime.sleep(1)\nos.kill(os.getpid(), 9)", "--compare", base).ends(
        137, "FAIL --compare: unknown: program under calibrated, process 1 has no peak in this run")
    half.write_text(base.read_text()[:200])
    python("", "--compare", half).refuses("--compare", "half.json: not JSON after byte 201: the file is cut off")
    report = json.loads(base.read_text())
    del report["trials"][0]["program"]["ranks"][0]["devices"][0]["active"]
    half.write_text(json.dumps(report))
    python("", "--compare", half).refuses("half.json: trials[program/exec/known/calibrated].program.ranks[0].devices[0]", "active")
    report["trials"][0]["program"]["ranks"] = []
    half.write_text(json.dumps(report))
    python("", "--compare", half).refuses("no process of a program has ended with a peak")
    python("", "--compare", FOLDER / "none").refuses("cannot be read")
    python("", "--compare", FOLDER).refuses("cannot be read")
    python("", "--compare", base, "--threshold", "memory").refuses("threshold")
    python("", "--threshold", "memory=0").refuses("--threshold needs --compare")


def changes(result):
    """How the peak of active changed, in bytes, and the lines that say it: bytes and what."""
    text = result.err[result.err.index("peak of active under"):]
    text = text[:text.index("report: ")]
    total = re.search(r"([+-][\d,]+) bytes:", text.splitlines()[0])[1]
    return int(total.replace(",", "")), [(int(size.replace(",", "")), what) for size, what in re.findall(r"^ +([+-][\d,]+)  (.*)$", text, re.M)]


def test_batch():
    """Three sequences in place of two: the cause first, then what grew, the most bytes first, with the sum exact."""
    two, three = FOLDER / "two", FOLDER / "three"
    gpt = [sys.executable, HERE / "gpt.py"]
    Said("--report", two, "--", *gpt, 2).ends(0)
    result = Said("--report", three, "--compare", two, "--", *gpt, 3).ends(5)
    cause, grown = result.err.index("The runs were made differently (1)"), result.err.index("peak of active under calibrated: ")
    result.check(cause < grown and "gpt.py 3\n" in result.err[cause:grown], "the arguments before what grew")
    total, rows = changes(result)
    result.check(total > 0 and sum(size for size, _ in rows) == total, "the sum of the lines")
    logits = 4 * 1024 * 50304  # of one sequence in fp32: their logarithms, and what two nodes make of them
    loss = next(number for number, line in enumerate((HERE / "gpt.py").read_text().splitlines(), 1) if "cross_entropy" in line)
    for size, what in rows[:3]:
        result.check(size == logits and what.startswith(("activations, outside modules, <module> gpt.py:", "backward, <module> gpt.py:")) and
                   f"gpt.py:{loss}" in what, "the loss before all else")
    lines = [size for size, what in rows if " more line" not in what]
    result.check(lines == sorted(lines, key=abs, reverse=True) and len(lines) > 5, "by bytes")


# holds: harness/exec/README.md, The report
def test_report():
    folder = FOLDER / "report"
    program = """
from torch import nn
import torch.distributed as dist
torch.cuda.set_device(int(__import__("os").environ["LOCAL_RANK"]))
model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)) for _ in range(3)]).cuda()
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
for step in range(3):
    output = model(torch.ones(512, 256, device="cuda"))
    with torch.profiler.record_function("loss"):
        loss = output.mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    result = python(program, "--ranks", 2, "--report", folder).ends(
        0, "alive at the highest peak of active memory", "optimizer state", "*.2, <module> <string>:9", "all parts: tidemark snapshot show")
    files = "junit.xml rank0.record rank0.trace.json.gz rank1.record rank1.trace.json.gz report.html report.json summary.md"
    result.check(" ".join(sorted(file.name for file in folder.iterdir())) == files, "a page, a snapshot and a trace a rank")
    trace = json.loads(gzip.decompress((folder / "rank1.trace.json.gz").read_bytes()))
    names = [event["name"] for event in trace["traceEvents"] if event["ph"] == "X"]
    result.check([names.count(name) for name in ("forward", "loss", "backward", "optimizer", "aten::addmm")] == [1, 1, 1, 1, 6], "the last step alone, six linear layers")
    shown = subprocess.run([TIDEMARK, "snapshot", "show", str(folder / "rank0.record"), "--format", "json"], capture_output=True, check=True)
    page = (folder / "report.html").read_text(encoding="utf-8")
    result.check("Memory over time" in page and "optimizer state" in page and "rank 1" in page, "the page says it too")
    device, = json.loads(shown.stdout)["devices"]
    kinds = {}
    for part in device["parts"]:
        kinds[part["kind"]] = kinds.get(part["kind"], 0) + part["bytes"]
    parameters = 4 * 3 * (2 * 256 * 1024 + 1024 + 256)
    result.check(sum(kinds.values()) == device["peak"]["active"], "the parts sum to the peak")
    result.check(kinds["parameters"] == parameters and kinds["optimizer state"] == 2 * parameters, f"parameters and Adam's two moments: {kinds}")
    phases = {(phase["step"], phase["name"]): phase["peak"]["active"] for phase in device["phases"]}
    result.check(list(phases) == [(step, name) for step in (1, 2, 3) for name in ("forward", "loss", "backward", "optimizer")], f"of each step: {phases}")
    result.check(phases[3, "backward"] == device["peak"]["active"] > phases[1, "forward"], f"the highest is in the last backward: {phases}")
    streams, garbage, activations, buffers, gathered = device["wastes"]
    result.check(activations["bytes"] == 4 * (512 * 256 + 1), f"the program keeps the last block's output and the loss over the optimizer's step: {activations}")
    result.check(streams["bytes"] == garbage["bytes"] == buffers["bytes"] == gathered["bytes"] == 0, f"no other stream, no sharding: {device['wastes']}")
    names = {(part["module"], part["site"]) for part in device["parts"] if part["kind"] in ("gradients", "backward")}
    result.check(not any("tidemark" in part["site"] for part in device["parts"]), f"no line is of tidemark: {device['parts']}")
    result.check({("*.2", "<module> <string>:9 (AddmmBackward0)"), ("*.1", "<module> <string>:9 (ReluBackward0)")} <= names, f"nodes and modules of the backward: {names}")
    # Of the main thread's handle and the autograd thread's, on a Hopper GPU; and cuBLASLt's, for the products with a bias.
    result.check(kinds["cuBLAS workspaces"] == 2 * (32 << 20) + (1 << 20), f"the workspaces: {kinds}")
    # The highest moment is in the last backward, after the output's gradient: all that forward kept is still there.
    result.check(kinds["activations"] == 4 * (512 * 3 * (1024 + 256) + 1), f"outputs of both layers of three blocks, and the loss: {kinds}")
    python("", "--report", folder).refuses("--report", "is not an empty folder")
    python("", "--report", "/proc/none").refuses("--report", "is not an empty folder and cannot be created")


def test_lacks():
    """Out of memory: what the device and the allocator had at that moment, also on the first allocation."""
    result = python("torch.empty(5 << 30, dtype=torch.uint8, device='cuda')", "--capacity", "4GiB", "--report", FOLDER / "first").ends(1)
    result.check("<module> <string>:2 wanted 5 GiB and the device had 4 GiB free\n" in result.err and "it needs 1 GiB more than the 4 GiB" in result.err and "lacking" not in result.err, "on the first allocation")
    gaps = """
kept = []
for i in range(3):
    kept += [torch.empty(100 << 20, dtype=torch.uint8, device='cuda')]
    del kept[-1]
    kept += [torch.empty(60 << 20, dtype=torch.uint8, device='cuda')]
try:
    torch.empty(150 << 20, dtype=torch.uint8, device='cuda')
except torch.OutOfMemoryError:
    del kept
torch.empty(200 << 20, dtype=torch.uint8, device='cuda')
"""
    result = python(gaps, "--capacity", "400MiB", "--schedule", "instant,lagging", "--report", FOLDER / "gaps").ends(0)
    # Three segments of 100 MiB, of each the first 60 in use.
    text = ("<string>:9 wanted 150 MiB and the device had 100 MiB free beside the allocator's 300 MiB: 180 MiB in use, "
            "120 MiB in gaps; it may fit if all that is not in use were one piece\n")
    result.check(result.err.count(text) == 2 and "schedule instant, process" in result.err and "schedule lagging, process" in result.err, "gaps, under each schedule")
    result.check(result.err.count(f"alive at that moment, as requested:\n    other                  {'180.0':>10} MiB  100.0%") == 2, "the blocks of that moment")
    for flag in "80", "1048575":
        python("", "--capacity", flag).refuses(f"--capacity {flag}", "below 1 MiB with its unit")


# night: five programs with their pages; exec_growth_every, exec_batch and exec_lacks answer these questions by day
def test_answers():
    """The page answers three questions: what grows, what a larger batch costs, and where memory ran out. Without an optimizer backwards are steps."""
    evaluate = """
from torch import nn
model = nn.Linear(1024, 1024, bias=False).cuda()
def evaluate(x):
    return model(x)
def main():
    total = 0
    for step in range(12):
        evaluate(torch.ones(64, 1024, device="cuda")).sum().backward()
        total = total + evaluate(torch.ones(ROWS, 1024, device="cuda")).pow(2).mean()
main()
"""
    folder, more = FOLDER / "leak", FOLDER / "more"
    # The graph of each evaluation keeps its input and output, of 1 MiB each.
    result = python(evaluate.replace("ROWS", "256"), "--report", folder, "--capacity", "300MiB").ends(0, "grows by 2 MiB a backward since backward 1: 1 MiB in 1 block, inputs, main <string>:11; 1 MiB in 1 block, activations")
    page = (folder / "report.html").read_text()
    result.check("Memory grows: process" in page and "The peak is" in page and 'id="memory"' in page and "of 300 MiB that it can have on the virtual GPU" in page, "the page says it")
    result.check(": 190 MiB are left.<" in page, "what is left, and nothing beside it: --capacity is what PyTorch can have")
    result.check(python(evaluate.replace("ROWS", "256").replace("total + ", ""), "--report", FOLDER / "fine").ends(0).err.count("grows by") == 0, "one graph stays alive")
    grew = python(evaluate.replace("ROWS", "512"), "--report", more, "--compare", folder, "--capacity", "300MiB").ends(5, "FAIL --compare", "arguments: exec ")
    total, rows = changes(grew)
    grew.check(total > 10 * MIB and sum(size for size, _ in rows) == total, f"the parts sum to the change of the peak: {rows}")
    full = python(evaluate.replace("ROWS", "256"), "--report", FOLDER / "full", "--capacity", "100MiB").ends(1, "out of memory: ", "grows by 2 MiB a backward")
    full.check("are full in" not in full.err, "it is full already")
    page = (FOLDER / "full" / "report.html").read_text()
    full.check(": out of memory: " in page and "this was not enough" in page and 'id="memory"' in page, "the page of a program that ran out of memory")
    first = python("torch.empty(1 << 30, device='cuda')", "--report", FOLDER / "first", "--capacity", "64MiB").ends(1, "out of memory: ")
    page = (FOLDER / "first" / "report.html").read_text()
    first.check("nothing was alive" in page and 'id="memory"' in page, "the picture of the run with room")


# night: many programs that leak in ways of their own; exec_growth_arrays and exec_growth_every name what holds memory by day
def test_holders():
    """What holds the memory that grows: a variable, a list, an attribute of a module, a cycle that waits for the collector; of the rank that grows
    most, and without torch.optim. Hooks of saved tensors are not called."""
    def leak(way, folder, *flags):
        return Said(*flags, "--report", folder, "--", sys.executable, HERE / "leak.py", way)

    for way, holder in {"total": "`total` in train (leak.py:50)", "own": "`total` in train (leak.py:50)", "list": "`kept` in train (leak.py:31)",
                        "attribute": "attribute `seen` of module 0 (Block)", "hook": "`total` in train (leak.py:50)",
                        "cycle": "a cycle of references (attribute `y` of TwiceBackward), which waits for Python's collector\n"}.items():
        result = leak(way, FOLDER / f"holders_{way}").ends(0, "grows by", "; held by " + holder)
        result.check("was not found" not in result.err and ("are full in" in result.err) == (way != "cycle"), f"{way}: what the collector frees has no rate")
        result.check("what is held" not in result.err and "and by" not in result.err, f"{way}: one holder")
    result = leak("total", FOLDER / "holders_ranks", "--ranks", 2)
    result.ends(0, "leak.py grows by", " on rank 1: held by `total` in train", "tidemark: rank 1 grows by", "; held by `total` in train")
    result.check("`total` in train" in (FOLDER / "holders_ranks" / "report.html").read_text(), "the page says it")
    result = leak("none", FOLDER / "holders_none").ends(0)
    result.check("grows by" not in result.err, "nothing grows")


def test_repeats():
    """Ten steps, of which the output of one lives into the next: two steps take turns. The last one is not over when the program ends."""
    folder = FOLDER / "repeats"
    result = python("""
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters())
for step in range(10):
    output = model(torch.ones(512, 256, device="cuda"))
    output.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""", "--report", folder).ends(0)
    file, = folder.glob("*.record")
    shown = subprocess.run([TIDEMARK, "snapshot", "show", str(file)], capture_output=True, text=True, check=True).stdout
    result.check("the same events came again" in shown, shown)
    page = (folder / "report.html").read_text(encoding="utf-8")
    result.check("the same events came again" in page, "the page says it")


def test_gathered():
    """Two tensor-parallel layers on rank 1 of 4, each 24 features wide. Each gathers a shard of 512 rows of 24 floats (49,152 bytes) to 2,048 rows
    (196,608 bytes) for a product; the gradient of its weight needs them. The first layer's shard is the program's input, which stays. The second's is a
    sum, which autograd does not keep: of its gathered rows one shard would have to stay."""
    program = """
import torch.distributed as dist, torch.distributed._functional_collectives as funcol, os
from torch import nn
ranks, way = int(os.environ["WORLD_SIZE"]), "WAY"
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
kept = None
def gather(shard, rows=None):
    rows = shard.new_empty(ranks * shard.shape[0], shard.shape[1]) if rows is None else rows
    dist.all_gather_into_tensor(rows, shard.contiguous())
    return rows
def scatter(rows):
    shard = rows.new_empty(rows.shape[0] // ranks, rows.shape[1])
    dist.reduce_scatter_tensor(shard, rows.contiguous())
    return shard
class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard):
        return gather(shard)
    @staticmethod
    def backward(ctx, gradient):
        return scatter(gradient)
class Scattered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        return scatter(rows)
    @staticmethod
    def backward(ctx, gradient):
        return gather(gradient)
class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, weight):
        global kept
        ctx.save_for_backward(shard, weight)
        kept = gather(shard, kept)
        return kept @ weight
    @staticmethod
    def backward(ctx, gradient):
        shard, weight = ctx.saved_tensors
        of_weight = gather(shard, kept).t() @ gradient
        return scatter(gradient @ weight.t()), of_weight
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(24, 24, device="cuda"))
    def forward(self, shard):
        if way == "recomputed":
            return Scattered.apply(Recomputed.apply(shard, self.weight))
        if way == "columns":
            columns = funcol.all_gather_tensor_autograd(shard.t().contiguous(), 1, dist.group.WORLD)
            return columns.t()[:512] @ self.weight
        return Scattered.apply(Gathered.apply(shard) @ self.weight)
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
    def forward(self, shard):
        return self.layers[1](self.layers[0](shard) + 1)
model, batch = Twice(), torch.ones(512, 24, device="cuda")
for _ in range(2):
    model(batch).sum().backward()
"""
    rows, shard = 4 * 512 * 24 * 4, 512 * 24 * 4
    # Along columns PyTorch's gather makes a copy, and autograd keeps that; the shards are copies of the program's, which autograd does not keep.
    for way, wanted in ("kept", [rows, rows - shard]), ("columns", 2 * [rows - shard]), ("recomputed", []):
        folder = FOLDER / f"gathered_{way}"
        result = python(program.replace("WAY", way), "--as-rank", 1, "--of", 4, "--report", folder).ends(0, "gathered inputs")
        shown = subprocess.run([TIDEMARK, "snapshot", "show", str(folder / "rank1.record"), "--format", "json"], capture_output=True, check=True)
        device, = json.loads(shown.stdout)["devices"]
        *_, gathered = device["wastes"]
        result.check(gathered["bytes"] == sum(wanted), f"{way}: {gathered}")
        result.check(sorted((part["module"], part["bytes"]) for part in gathered["parts"]) == ([("layers.*", sum(wanted))] if wanted else []), f"{way}: {gathered['parts']}")


def test_dispatch():
    """What operators that DTensor computes in Python save outside modules are activations."""
    result = python("""
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import loss_parallel
mesh = dist.init_device_mesh("cuda", (2,))
logits = distribute_tensor(torch.ones(2048, 4096, device="cuda"), mesh, [Shard(1)]).requires_grad_()
with loss_parallel():
    loss = torch.nn.functional.cross_entropy(logits, torch.zeros(2048, dtype=torch.int64, device="cuda"))
    loss.backward()
dist.destroy_process_group()""", "--as-rank", "0", "--of", "2", "--report", FOLDER / "dispatch").ends(0)
    result.check(re.search(r"activations +16.00 MiB .*\n +16.00 in 1 block, outside modules, <module> <string>:9 \(in _log_softmax\)\n", result.err), "the result of log_softmax")


def test_schedules():
    """Four blocks of 16 MiB, each freed while another stream may still use it: one is alive where the device is never behind, four where it is."""
    folder, out = FOLDER / "schedules", FOLDER / "schedules.json"
    result = python("""
side = torch.cuda.Stream()
for _ in range(4):
    block = torch.empty(4 << 20, device="cuda")
    with torch.cuda.stream(side):
        block.add_(1)
    block.record_stream(side)
    del block""", "--schedule", "instant,lagging", "--report", folder, "--out", out).ends(
        0, "highest - lowest", "process 1                      16 MiB             64 MiB             48 MiB", "+48 MiB  ", "<module> <string>:5")
    page = (folder / "report.html").read_text(encoding="utf-8")
    (folder / "report.html").unlink()
    subprocess.run([TIDEMARK, "report", folder], capture_output=True, check=True)
    result.check("50,331,648" in page and (folder / "report.html").read_text(encoding="utf-8") == page, "tidemark report makes the same page")
    compared = subprocess.run([TIDEMARK, "compare", folder, out], capture_output=True, text=True, check=False)
    result.check(compared.returncode == 0 and "no difference" in compared.stdout, "tidemark compare reads both")
    folder = FOLDER / "stopped"
    python("x = torch.ones(1 << 20, device='cuda')\nraise SystemExit(1)", "--schedule", "instant,lagging", "--report", folder).ends(1, "schedule instant:")
    page = (folder / "report.html").read_text(encoding="utf-8")
    subprocess.run([TIDEMARK, "report", folder], capture_output=True, check=True)
    result.check("4,194,304" in page and (folder / "report.html").read_text(encoding="utf-8") == page, "the same after a run that stopped under its first schedule")
    python("", "--schedule", "instant,instant").refuses("--schedule names a schedule twice")


def test_checkpointing():
    """Checkpointing ends its second forward by an exception, out of the operator that saves the last tensor."""
    for reentrant in False, True:
        python(f"""
from torch import nn
from torch.utils.checkpoint import checkpoint
blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)) for _ in range(3)).cuda()
x = torch.ones(8, 64, device="cuda", requires_grad=True)
for block in blocks:
    x = checkpoint(block, x, use_reentrant={reentrant})
x.sum().backward()""", "--report", FOLDER / f"checkpointing{reentrant}").ends(0, "alive at the highest peak")


def test_compiled():
    """What follows the modules breaks no graph of torch.compile; plain tensors get their labels without Python."""
    program = """
import sys
import torch._dynamo
from torch import nn
asked = []
if "tidemark_labels" in sys.modules:
    labels = sys.modules["tidemark_labels"].Labels
    addresses = labels.addresses
    labels.addresses = lambda own, tensor: asked.append(type(tensor).__name__) or addresses(own, tensor)
class Layer(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.inner, self.parts = nn.Linear(64, 64), parts
    def __call__(self, x):
        return super().__call__(x)
    def forward(self, x):
        x = self.inner(x)
        if self.parts:
            torch._dynamo.graph_break()
        return self.inner(x).relu()
for parts in False, True:
    model = nn.Sequential(Layer(parts), nn.Linear(64, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(model, backend="eager", fullgraph=not parts)
    for _ in range(2):
        compiled(torch.ones(4, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("breaks", *torch._dynamo.utils.counters["graph_break"].values(), "asked", asked)
class Own(torch.Tensor):
    pass
own = torch.ones(4, device="cuda").as_subclass(Own).requires_grad_()
torch.optim.SGD([own]).step()
print("asked", asked)"""
    plain, reported = python(program).ends(0), python(program, "--report", FOLDER / "compiled").ends(0)
    reported.check(reported.out.splitlines() == [*plain.out.splitlines()[:2], "asked ['Own']"], f"the breaks of the program's own, which are {plain.out}")


def test_lines():
    """Races name the program's lines, and in the backward autograd's node."""
    result = python("""
def step():
    with torch.cuda.stream(side):
        w.grad.mul_(0.5)
side = torch.cuda.Stream()
w = torch.ones(1 << 20, device="cuda", requires_grad=True)
w.grad = torch.zeros_like(w)
(w * 2).sum().backward()
step()""", "--races", "on", "--no-races")
    result.ends(5, "FAIL --no-races: process", "aten::mul_.Tensor at step <string>:5 (stream 1) writes 4194304 bytes", " in torch::autograd::AccumulateGrad (default stream) writes")
