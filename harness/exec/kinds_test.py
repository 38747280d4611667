"""Kinds, names and lines of memory: tensors that change hands, a module of several places, folders that are named like PyTorch's."""
import json
import random
import subprocess
import sys

from testing.held import alive, folder_of, left
from testing.said import FOLDER, MIB, TIDEMARK, Said, drawn, python, seed


def test_handed_over():
    """A recurrent network that moves and never runs, a copy of the weights beside it, state in an object, gradients that the program makes itself, an
    activation function of several layers. The state has parameters as keys, and the search for holders must not read their values."""
    result = python("""
from torch import nn
printed = []
torch.Tensor.__repr__ = lambda tensor, **_: printed.append(tuple(tensor.shape)) or "tensor"
recurrent = nn.LSTM(512, 512).cuda()
class Layer(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.linear, self.act = nn.Linear(1024, 1024, bias=False, device="cuda"), act
    def forward(self, x):
        return self.act(self.linear(x))
act = nn.SiLU()
model = nn.Sequential(Layer(act), Layer(act))
average = [one.clone().detach() for one in model.parameters()]
class Preconditioner:
    def __init__(self, like):
        self.left = [torch.zeros_like(like)]
class Optimizer(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter].setdefault("pre", Preconditioner(parameter))
optimizer = Optimizer(model.parameters())
kept = []
for _ in range(8):
    kept.append(model(torch.ones(1024, 1024, device="cuda")))
    kept[-1].sum().backward()
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
assert not printed, printed
block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
""", "--report", FOLDER / "handed").ends(0)
    recurrent = 4 * (8 * 512 * 512 + 8 * 512)
    result.check(left(result, "parameters") == recurrent + 8 * MIB, "the recurrent network's weights and the model's")
    for kind, what in (("gradients", "which the program makes"), ("optimizer state", "which lies in objects")):
        result.check(left(result, kind) == 8 * MIB, f"{kind}, {what}")
    other, lines = alive(result, "other")
    result.check(other == (1 << 28) + 8 * MIB and "8,388,608 in 2 blocks, <" in lines, "the copy of the weights, beside the last block")
    _, lines = alive(result, "activations")
    result.check("*.act, forward" in lines and "0.act" not in lines, "the activation function is that of both layers")
    result.check("held by `kept`" in result.err and "aten::copy_" not in result.err, "a search for holders that reads no tensor")


def test_folders_named_torch():
    """A program's own folder that is named like PyTorch's, below which one is named like that of its optimizers."""
    library = FOLDER / "torch" / "optim"
    library.mkdir(parents=True)
    (library / "soap.py").write_text("def features(x):\n    return (x @ x.t()).relu()\n")
    result = python(f"""
import sys
sys.path.append({str(library)!r})
from soap import features
class Noted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        return super().__torch_function__(function, types, arguments, keywords or {{}})
layer = torch.nn.Linear(1024, 1024, device="cuda")
kept = features(layer(torch.ones(1024, 1024, device="cuda")))
kept.sum().backward()
def noted():
    return torch.ones(1024, 1024, device="cuda").as_subclass(Noted) + 1
other = noted()
block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
""", "--report", FOLDER / "torches").ends(0)
    result.check("features soap.py:2" in result.err and "optimizer" not in result.err[result.err.index("alive at"):], "lines of the program's own folder")
    _, lines = alive(result, "other")
    result.check(" noted <string>:" in lines and "__torch_function__" not in lines, lines)


def test_first_use_within_a_forward():
    """CUDA starts in a module's forward: what is allocated first has the kind, the phase and the module of what comes after it."""
    result = python("""
from torch import nn
class Inner(nn.Module):
    def forward(self, x, w):
        return (x * w).relu()
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.inner = nn.Parameter(torch.ones(1 << 20)), Inner()
    def forward(self, x):
        with torch.profiler.record_function("moved"):
            w = self.w.cuda()
        return self.inner(x.cuda(), w)
net = Outer()
kept = [net(torch.ones(1 << 20)) for _ in range(2)]
""", "--report", FOLDER / "within").ends(0)
    bytes_, lines = alive(result, "activations")
    result.check(bytes_ == 6 * 4 * MIB and "other" not in result.err, "x * w is freed at once, so each forward has w, x and the result")
    result.check(f"{2 * 4 * MIB:,} in 2 blocks, Outer, forward" in lines, "both copies of w are the outer module's")


def test_computed_from_activations():
    """An evaluation computes outside modules: what it reads of the model's results makes activations, what it reads of weights and of tensors of its own does not."""
    draw = random.Random(seed())
    ways = {"torch.cat([out, out])": 2, "out.softmax(-1)": 1, "out.clone()": 1, "out * weight": 1, "weight + out.t()": 1, "(out - own).abs().add(1)": 1,
            "torch.stack([own, out])": 2, "torch.where(out > own, own, 0.0)": 1, "out.repeat(3, 1)": 3, "out.half().float()": 1}
    chosen = draw.sample(sorted(ways), 4)
    result = python(f"""
model = torch.nn.Linear(1024, 1024, device="cuda")
weight, own, kept = model.weight, torch.ones(1024, 1024, device="cuda"), []
with torch.no_grad():
    for _ in range(2):
        out = model(torch.ones(1024, 1024, device="cuda"))
        kept += [{", ".join(chosen)}]
        del out
    kept += [weight.clone(), own * 2, torch.cat([weight, own])]
block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
""", "--report", FOLDER / "computed").ends(0)
    activations, other = (alive(result, kind)[0] for kind in ("activations", "other"))
    result.check(activations == 2 * 4 * MIB * sum(ways[way] for way in chosen), f"{activations} of {chosen}")
    result.check(other == (1 << 28) + (1 + 1 + 1 + 2) * 4 * MIB, f"{other}: own, three of weights and of own, the block")


def test_unsharded_gradients():
    """Whole gradients that FSDP2 accumulates in fp32 while the program does not synchronise them."""
    result = python("""
import os
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(3)]).cuda()
for layer in net:
    fully_shard(layer, mp_policy=policy)
fully_shard(net, mp_policy=policy)
net.set_requires_gradient_sync(False)
for _ in range(2):
    net(torch.ones(8, 1024, device="cuda")).sum().backward()
block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
""", "--ranks", 2, "--report", FOLDER / "unsharded").ends(0)
    bytes_, _ = alive(result, "gradients")
    result.check(bytes_ == 3 * 4 * MIB, "three gradients in fp32")
    result.check("that outlive the backward, before an optimizer's step: 0 of" in result.err or "outlive the backward" not in result.err, "and no buffers that outlive the backward")


def test_inputs():
    """What is copied from the host or passed to an outermost module is input; a target too, and a batch in a dictionary; not what a module has made, a copy of the
    weights, or memory that nobody passes on."""
    result = python("""
from torch import nn
encoder, decoder = nn.Linear(1024, 1024, bias=False, device="cuda"), nn.Linear(1024, 1024, bias=False, device="cuda")
class Taking(nn.Module):
    def forward(self, batch):
        return decoder(batch["x"])
average = encoder.weight.detach().clone()
scratch = torch.empty(3 << 18, device="cuda")
taking = Taking()
for _ in range(2):
    made = torch.randn(2048, 1024, device="cuda")
    target = torch.zeros(512, 1024).cuda()
    hidden = encoder(made)
    ((taking({"x": hidden})[:512] - target) ** 2).mean().backward()
    encoder.weight.data.copy_(torch.ones(1024, 1024))
block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
""", "--report", FOLDER / "inputs").ends(0)
    inputs, lines = alive(result, "inputs")
    result.check(inputs == (2 + 8) * MIB, f"the batch and the target: {lines}")
    other, _ = alive(result, "other")
    result.check(other == (1 << 28) + (4 + 3) * MIB, "the average, the scratch memory and the last block")
    result.check(alive(result, "parameters")[0] == 2 * 4 * MIB, "a weight that is copied over stays one")


def test_temporaries_of_any_optimizer():
    """A step of an optimizer that is not torch.optim's: what it keeps is state, and all else that it allocates are temporaries."""
    result = python("""
class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if not state:
                state["m"] = torch.zeros_like(parameter)
            update = parameter.grad * 2
            block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
            parameter.sub_(update)
weight = torch.nn.Parameter(torch.ones(1024, 1024, device="cuda"))
own = Own([weight])
for _ in range(2):
    (weight * 2).sum().backward()
    own.step()
    own.zero_grad()
""", "--report", FOLDER / "own").ends(0)
    temporaries, lines = alive(result, "optimizer temporaries")
    result.check(temporaries == (1 << 28) + 4 * MIB, lines)
    result.check(alive(result, "optimizer state")[0] == 4 * MIB and "other" not in result.err[result.err.index("alive at the highest"):result.err.index("memory to look at")], result.err)


def test_compiled_code():
    """Inductor notes for stretches of its code which lines of the program they compute. The stretches of such a file are drawn, and each block has the line
    of its own; one without a note, or with one of another program that has filled Inductor's cache, has the line that calls the file. Inductor's autotuner keeps what a
    kernel changes on the host; values that are not known stay where they are."""
    draw = random.Random(seed())
    count, begin = 40, draw.randint(2, 9)
    stretches = sorted(draw.sample(range(begin, begin + count), 9))
    notes, seen, wanted = [], [], {}  # bytes by line
    for line in stretches:
        frames = [("model.py", draw.randint(1, 999), f"forward_{line}"), (draw.choice(["block.py", 'a "b", line 1, in c.py']), draw.randint(1, 999), "<lambda>")]
        frames = draw.choice([[], frames[:1], frames])  # outermost first
        notes.append((line, "".join(f'  File "/of/{file}", line {number}, in {name}\n    File "x.py", line 1, in y\n' for file, number, name in frames)))
        seen += draw.choice([[], notes[-1][1:], [notes[-1][1] + "Gradient addition node due to multiple use of tensor around:"]])
    known = [frames for trace in seen for frames in [[line for line in trace.splitlines() if line.startswith("  File")]] if frames]
    for at in range(count):
        noted = [trace for line, trace in notes if line <= begin + at]
        inner = [line for line in noted[-1].splitlines() if line.startswith("  File")] if noted else []
        inner = inner[-1:] if inner in known else []
        file, number, name = ("", "", "") if not inner else (inner[0].split('"', 1)[1].rsplit('", line', 1)[0], *inner[0].rsplit("line ", 1)[1].split(", in "))
        line = f"{name} {file.rsplit('/', 1)[1]}:{number}" if inner else "run <string>:26"
        wanted[line] = wanted.get(line, 0) + 2 * MIB + at * 2048
    code = "def call(kept, torch):\n" + "\n" * (begin - 2) + "".join(f"    kept.append(torch.empty({(2 * MIB + at * 2048) // 4}, device='cuda'))\n" for at in range(count))
    result = python(f"""
import torch._inductor.codecache as codecache
import torch._inductor.compile_fx as compile_fx
graph = torch.fx.symbolic_trace(torch.nn.Sequential(*[torch.nn.ReLU()] * {len(seen)}))
for node, trace in zip(graph.graph.nodes, {seen!r}):
    node.stack_trace = trace
try:
    compile_fx.compile_fx(graph, None)  # is refused
except Exception as error:
    print(type(error))
key, path = codecache.PyCodeCache.write({code!r})
module = codecache.PyCodeCache.load_by_key_path(key, path, {notes!r})
from types import SimpleNamespace
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
tuner = CachingAutotuner.__new__(CachingAutotuner)
tuner.optimize_mem, tuner.mutated_arg_names, tuner.fn = True, ["x"], SimpleNamespace(arg_names=["x"])
on_host = tuner.copy_args_to_cpu_if_needed(x)
tuner.restore_args_from_cpu(on_host)
(kept_of, values), = on_host.values()
print(kept_of is x, values.numel(), values.is_pinned())
del x, on_host, kept_of, values
kept = []
def run():
    return module.call(kept, torch)
run()
""", "--report", FOLDER / "compiled_code").ends(0)
    result.check(result.out.endswith("True 1048576 True\n"), "the autotuner has a place on the host, without values")
    said = {part["line"]: part["bytes"] for trial in json.loads((folder_of(result) / "report.json").read_text())["trials"] for part in trial["alive"]["parts"]}
    result.check(said == wanted, f"lines {said}, and Inductor's notes say {wanted}")


# night: torch.compile takes seconds; exec_kinds_compiled_code has lines by day
def test_compiled_graph():
    """A backend that runs the graph itself: each block has the model's line, with lines between that allocate nothing. Operators, their order and the distance of
    their lines are drawn; all that they compute stays."""
    draw = random.Random(seed())
    operators = [draw.choice(["x @ self.w", "torch.nn.functional.gelu(x)", "x * 2", "x + 1", "x.exp()", "self.w + x"]) for _ in range(5)]
    body, wanted = [], {}
    for operator in operators:
        body += draw.choice([[], ["y = x.t()"], ["", "n = len(kept)"]]) + [f"x = {operator}", "kept.append(x)"]
        wanted[f"forward graph.py:{len(body) + 5}"] = 2 * 4 * MIB
    lines = "\n        ".join(body)
    program = FOLDER / "graph.py"
    program.write_text(f"""import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1024, 1024))
    def forward(self, x, kept):
        {lines}
        return kept
net = Net().cuda()
compiled = torch.compile(net, backend={draw.choice(["aot_eager", "eager"])!r})
first, results = torch.ones(1024, 1024, device="cuda"), []
for _ in range(2):
    results.append(compiled(first, []))
block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
""")
    result = Said("--report", FOLDER / "compiled_graph", "--", sys.executable, program).ends(0)
    _, said = alive(result, "activations")
    for line, bytes_ in wanted.items():
        result.check(any(one.startswith(f"{bytes_:,} in 2 blocks, ") and one.endswith(line) for one in said.splitlines()), f"{line} in {said}")


def test_wrapped():
    """What a model keeps that others wrap, which have no path of their own, is in that model, however many wrap it."""
    draw, wrappers = random.Random(seed()), ("torch.nn.DataParallel({}, [0])", "Wrapper({})", "checkpoint_wrapper({})")
    models = [[draw.choice(["torch.compile({}, backend='eager')", "{}"]), *draw.choices(wrappers, k=count)] for count in (1, 2, 3)]
    program = """
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, x):
        return self.module(x)
"""
    for number, words in enumerate(models):
        model = f"Net{number}().cuda()"
        for word in words:
            model = word.format(model)
        program += f"""
class Net{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1024))
    def forward(self, x):
        return (x * self.weight).exp()
kept{number} = {model}(torch.ones({number + 1}, 1024, 1024, device="cuda"))
"""
    result = python(program, "--report", FOLDER / "wrapped").ends(0)
    trials = json.loads((folder_of(result) / "report.json").read_text())["trials"]
    modules = {part["module"] for trial in trials for part in trial["alive"]["parts"] if part["kind"] in ("activations", "other") and part["bytes"] >= 4 * MIB}
    result.check(modules == {f"Net{number}" for number in range(len(models))}, f"modules {modules} of {models}")


def test_pipelines():
    """Of a pipeline of two stages each holds buffers that the other's tensors arrive in, one a microbatch; at the end of a step the last one has what all
    microbatches gave in one tensor."""
    draw = random.Random(seed())
    microbatches, rows, width, classes = draw.randint(2, 6), draw.randint(8, 64), 256 * draw.randint(1, 4), 1024 * draw.randint(4, 16)
    program = f"""
import os, torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
rank = int(os.environ["RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
part = nn.Linear(64, {width}) if rank == 0 else nn.Linear({width}, {classes})
stage = PipelineStage(part.to(device), rank, 2, device)
schedule = ScheduleGPipe(stage, {microbatches}, loss_fn=lambda output, _: output.sum())
for _ in range(2):
    x = torch.ones({microbatches * rows}, 64, device=device) if rank == 0 else None
    kept = schedule.step(x) if rank == 0 else schedule.step(target=torch.zeros({microbatches * rows}, device=device))
full = torch.empty(1 << 28, device=device)
dist.destroy_process_group()
"""
    result = python(program, "--ranks", "2", "--report", FOLDER / "pipelines").ends(0)
    for rank, outputs in (0, 0), (1, microbatches * rows * classes * 4):
        shown = subprocess.run([TIDEMARK, "snapshot", "show", folder_of(result) / f"rank{rank}.record", "--format", "json"], capture_output=True, check=True)
        parts = json.loads(shown.stdout)["devices"][0]["parts"]
        held = {kind: sum(part["bytes"] for part in parts if part["kind"] == kind) for kind in ("receive buffers", "outputs", "other")}
        wanted = {"receive buffers": microbatches * rows * width * 4, "outputs": outputs, "other": 1 << 30}
        result.check(held == wanted, f"rank {rank}: {held}, not {wanted}: {parts}")


def test_hooks_of_a_backward():
    """What hooks allocate in a backward, and the gradients that activations retain, are made in the backward."""
    ways = [("", "inner.retain_grad(); kept.append(inner)"),
            ("", "inner.register_hook(lambda g: kept.append(g * 2))"),
            ("net[0].register_full_backward_hook(lambda m, given, left: kept.append(left[0] + 1))", ""),
            ("net[0].weight.register_post_accumulate_grad_hook(lambda p: kept.append(p.grad.clone()))", "")]
    for i, (before, after) in drawn(list(enumerate(ways)), 2):
        result = python(f"""
net, kept = torch.nn.Sequential(torch.nn.Linear(1024, 1024, bias=False), torch.nn.ReLU()).cuda(), []
{before}
inner = net(torch.ones(1024, 1024, device="cuda"))
{after}
inner.sum().backward()
del inner
block = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
""", "--report", FOLDER / f"hooks{i}").ends(0)
        of_backward, lines = alive(result, "backward")
        result.check(of_backward == 4 * MIB, f"{before}{after}: 4 MiB of the backward: {lines}")
