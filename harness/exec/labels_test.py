"""The kinds and names that `tidemark exec --report` gives to memory."""
from testing.held import alive, left
from testing.said import FOLDER, MIB, python


def test_inner():
    """Tensors within others: a quantised weight and the optimizer state of one, a sparse gradient, lists of LBFGS, a parameter below torch.func."""
    program = """
from torch import nn
class Quantised(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)
    def __init__(self, data, scale):
        self.data_, self.scale_ = data, scale
    def __tensor_flatten__(self):
        return ["data_", "scale_"], None
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        if function is torch.ops.aten.detach.default:
            return cls(arguments[0].data_, arguments[0].scale_)
        plain = [one.data_ * one.scale_ if isinstance(one, Quantised) else one for one in arguments]
        return function(*plain, **(keywords or {}))
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        data = torch.zeros(1024, 1024, dtype=torch.int8, device="cuda")
        self.weight = nn.Parameter(Quantised(data, torch.ones(1024, 1, device="cuda")), requires_grad=False)
    def forward(self, x):
        return nn.functional.linear(x, self.weight)
model = nn.Sequential(Layer(), nn.Linear(1024, 1024, bias=False, device="cuda"))
optimizer = torch.optim.LBFGS(model[1].parameters(), max_iter=3, tolerance_grad=0, tolerance_change=0)
def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(8, 1024, device="cuda")).square().mean() + model[1].weight.square().sum()
    loss.backward()
    return loss
for _ in range(2):
    optimizer.step(closure)
embedding = nn.Embedding(4096, 256, sparse=True, device="cuda")
embedding(torch.arange(1024, device="cuda")).sum().backward()
torch.optim.SGD(embedding.parameters(), lr=0.1).step()
other = nn.Linear(512, 512, bias=False, device="cuda")
parameters = {name: value.detach() for name, value in other.named_parameters()}
torch.func.grad(lambda own: torch.func.functional_call(other, own, (torch.ones(1, 512, device="cuda"),)).sum())(parameters)
block = torch.empty(64 << 20, device="cuda")
"""
    result = python(program, "--mode", "math", "--report", FOLDER / "inner").ends(0)
    parameters, _ = alive(result, "parameters")
    # The plain weight; int8 and a scale a row; the embedding; the parameter that torch.func was given.
    result.check(parameters == 4 * MIB + MIB + 4096 + 4 * MIB + MIB, f"{parameters} bytes of parameters")
    # LBFGS keeps the last direction and gradient, and of all iterations but the first the direction and the change of the gradient. Three evaluations
    # a step (1.25 max_iter) are two iterations.
    state, lines = alive(result, "optimizer state")
    result.check(state // (4 * MIB) == 2 + 2 * 3, lines)
    gradients, lines = alive(result, "gradients")
    result.check(gradients == 4 * MIB + MIB + 8 * 1024, f"a dense gradient, and a sparse one of 1,024 rows and their indices: {lines}")


def test_paths():
    """A part of a model that is called alone at first, to learn a shape, has the path below the whole model; so has memory that it had then."""
    program = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(1024, 2048, bias=False), nn.ReLU()).cuda()
        with torch.no_grad():
            size = self.features(torch.ones(1, 1024, device="cuda")).shape[1]
        self.head = nn.Linear(size, 1024, bias=False).cuda()
    def forward(self, x):
        return self.head(self.features(x))
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(1024, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    result = python(program, "--report", FOLDER / "paths").ends(0)
    for kind, count in ("parameters", "1 block"), ("optimizer state", "2 blocks"):
        _, lines = alive(result, kind)
        result.check(f"in {count}, features.*, " in lines and f"in {count}, head, " in lines and lines.count("\n") == 2, f"{kind}: {lines}")
    _, lines = alive(result, "activations")
    result.check("in 1 block, features.*, forward" in lines, f"the modules that ran: {lines}")


def test_hooks():
    """An optimizer that steps in the backward, one parameter after the other: its temporaries are its own, and no graph outlives the backward."""
    program = """
from torch import nn
model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(4)]).cuda()
optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in model.parameters()}
def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(3):
    model(torch.ones(8, 4096, device="cuda")).sum().backward()
"""
    result = python(program, "--report", FOLDER / "hooks").ends(0, "memory to look at: nothing was found")
    temporaries, lines = alive(result, "optimizer temporaries")
    result.check(temporaries == 128 * MIB and "step <string>:" in lines, f"a root, and its quotient: {lines}")


def test_functions():
    """What the forward of a torch.autograd.Function allocates outside modules are activations; its backward is none."""
    program = """
class Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        slope = 2 * x
        ctx.save_for_backward(slope)
        return (x * x).sum()
    @staticmethod
    def backward(ctx, gradient):
        slope, = ctx.saved_tensors
        found = gradient * slope
        torch.empty(16 << 20, device="cuda")
        return found
x = torch.ones(1 << 20, device="cuda", requires_grad=True)
loss = Squares.apply(x)
loss.backward()
"""
    result = python(program, "--report", FOLDER / "functions").ends(0, "activations that outlive the backward, when a backward has ended: <0.01 of 8.00 MiB")
    activations, lines = alive(result, "activations")
    result.check(activations == 4 * MIB + 4 and "outside modules, forward <string>:6" in lines, f"the slope and the loss: {lines}")
    backward_bytes, lines = alive(result, "backward")
    result.check(backward_bytes == 64 * MIB + 4 and "backward <string>:13 (SquaresBackward)" in lines, f"what the backward makes, and the gradient of the loss: {lines}")
    gradients, lines = alive(result, "gradients")
    result.check(gradients == 4 * MIB and "backward <string>:12 (SquaresBackward)" in lines, f"the product becomes the gradient: {lines}")


def test_nested():
    """The forward of a torch.autograd.Function goes on when that of another one within it has ended; what a function without one makes is other."""
    program = """
class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.empty(1 << 20, device="cuda"))
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        return gradient
class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = Inner.apply(x)
        ctx.save_for_backward(torch.empty(2 << 20, device="cuda"))
        return y
    @staticmethod
    def backward(ctx, gradient):
        return gradient
@torch.no_grad()
def plain(x):
    return torch.empty(3 << 20, device="cuda")
x = torch.ones(1, device="cuda", requires_grad=True)
with torch.enable_grad():
    kept = [Outer.apply(x), Inner.apply(x), plain(x)]
block = torch.empty(64 << 20, device="cuda")
"""
    result = python(program, "--report", FOLDER / "nested").ends(0)
    activations, lines = alive(result, "activations")
    result.check(activations == 8 * MIB + 4 + 4 + 4 * MIB and "8,388,608 in 1 block, outside modules, forward <string>:15" in lines,
               f"the outer one's tensor, the inner one's, and the results: {lines}")
    _, lines = alive(result, "other")
    result.check("12,582,912 in 1 block, plain <string>:22" in lines, lines)


def test_workspaces():
    """Workspaces of cuBLAS and cuBLASLt have their kind, whether PyTorch keeps them or, from 2.15 on, frees them after each product."""
    program = """
weight, bias, x = (torch.ones(shape, device="cuda", requires_grad=True) for shape in ((1024, 1024), (1024,), (1024, 1024)))
for _ in range(2):
    torch.nn.functional.linear(x, weight, bias).square().sum().backward()
    weight.grad = bias.grad = x.grad = None
"""
    result = python(program, "--report", FOLDER / "workspaces").ends(0)
    workspaces, lines = alive(result, "cuBLAS workspaces")
    result.check(workspaces // (32 * MIB) in (1, 2) and workspaces % (32 * MIB) in (0, MIB), f"of the backward, and of the forward: {lines}")
    backward_bytes, lines = alive(result, "backward")
    result.check(backward_bytes < 32 * MIB, f"no workspace: {lines}")


# night: labels of second derivatives
def test_second():
    """Nodes that the backward makes have the line of the node that ran: of a gradient's own graph, and of a forward that a reentrant checkpoint computes again.
    A graph that torch.func lets go of right after its backward is not held."""
    begin = """
from torch import nn
from torch.utils.checkpoint import checkpoint
model = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.Tanh(), nn.Linear(1024, 1024, bias=False)).cuda()
x = torch.ones(2048, 1024, device="cuda", requires_grad=True)
"""
    result = python(begin + """
gradient, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
gradient.square().sum().backward()
""", "--report", FOLDER / "second").ends(0)
    _, lines = alive(result, "backward")
    result.check("*, <module> <string>:8 (TanhBackwardBackward0)" in lines, lines)
    result = python(begin + """
for _ in range(2):
    checkpoint(model, x, use_reentrant=True).sum().backward()
""", "--report", FOLDER / "reentrant").ends(0)
    _, lines = alive(result, "gradients")
    result.check("*, <module> <string>:9 (MmBackward0)" in lines, lines)
    python(begin + """
torch.func.grad(torch.sum)(torch.ones(1))  # the first call leaves a cycle of references
inputs = {name: one.detach() for name, one in model.named_parameters()}
torch.func.grad(lambda own: torch.func.functional_call(model, own, (x.detach(),)).square().sum())(inputs)
""", "--report", FOLDER / "func").ends(0, "memory to look at: nothing was found")


def test_moves():
    """Parameters of a model that is never called, that a hook brings to the GPU (offloading), and of a module that is added after the first forward. What is
    alive at the program's end are the variables of its module, before Python lets go of them."""
    program = """
from torch import nn
def linear(**more):
    return nn.Linear(1024, 1024, bias=False, **more)
def bring(module, _):
    module.cuda()
x = torch.ones(8, 1024, device="cuda")
never, offloaded, model = linear().cuda(), nn.Sequential(linear(), linear()), nn.Sequential(linear()).cuda()
offloaded.register_forward_pre_hook(bring)
with torch.no_grad():
    offloaded(x), model(x)
    model.append(linear(device="cuda"))
    model(x)
block = torch.empty(64 << 20, device="cuda")
"""
    result = python(program, "--report", FOLDER / "moves").ends(0)
    parameters, lines = alive(result, "parameters")
    result.check(parameters == 5 * 4 * MIB and "8,388,608 in 2 blocks, *, bring <string>:7" in lines, f"{parameters} bytes: {lines}")
    result.check(left(result, "parameters") == 20 * MIB, "all variables")


def test_copies():
    """Parameters and buffers of modules that are never called: a copy (a moving average), one that was loaded, one of TorchScript, a lazy one (which has no
    memory yet), and those that were built on the GPU."""
    program = """
import copy, io
from torch import nn
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(1024, 1024, device="cuda"))
        self.register_parameter(name="more", param=nn.Parameter(torch.zeros(1024, 1024, device="cuda")))
        self.register_parameter("none", None)
        self.register_buffer("seen", tensor=torch.zeros(1024, 2048, device="cuda"), persistent=False)
    def forward(self, x):
        return x @ self.table
model, built = nn.Sequential(Own()), Own()
scripted, lazy = torch.jit.script(nn.BatchNorm1d(8)).cuda(), nn.LazyLinear(8).cuda()
average = copy.deepcopy(model)
file = io.BytesIO()
torch.save(built, file)
file.seek(0)
loaded = torch.load(file, weights_only=False)
with torch.no_grad():
    model(torch.ones(8, 1024, device="cuda"))
block = torch.empty(64 << 20, device="cuda")
"""
    result = python(program, "--report", FOLDER / "copies").ends(0)
    for kind, of_script in ("parameters", 2 * 8 * 4), ("buffers", 2 * 8 * 4 + 8):
        size, lines = alive(result, kind)
        result.check(size == 4 * 8 * MIB + of_script, f"{kind}: {size} bytes: {lines}")
        result.check(left(result, kind) == size, "all variables")


def test_swaps():
    """torch.utils.swap_tensors, with which Module.double changes parameters in place, takes no tensor to which something has a weak reference."""
    program = """
from torch import nn
model = nn.Sequential(nn.Linear(1024, 1024, bias=False)).cuda()
x = torch.ones(8, 1024, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model(x).sum().backward()
optimizer.step()
torch.__future__.set_swap_module_params_on_conversion(True)
model.double()
model(x.double()).sum().backward()
optimizer.step()
block = torch.empty(64 << 20, device="cuda")
"""
    result = python(program, "--report", FOLDER / "swaps").ends(0)
    for kind in "parameters", "gradients":
        size, lines = alive(result, kind)
        result.check(size == 8 * MIB, f"{kind}: {size} bytes: {lines}")


# night: repeats exec_labels_hooks in the backward
def test_hooks_of_backward():
    """What FSDP gathers in a hook before a node runs, and what a hook of DDP compresses, is at the line that calls the backward: autograd's threads have no
    line of the program's."""
    begin = """
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.fsdp import fully_shard
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512)).cuda()
"""
    fsdp = """
for layer in model:
    fully_shard(layer)
fully_shard(model)
"""
    ddp = """
model = nn.parallel.DistributedDataParallel(model)
model.register_comm_hook(None, fp16_compress_hook)
"""
    end = """
loss = model(torch.ones(8, 512, device="cuda")).sum()
loss.backward()
dist.destroy_process_group()
"""
    for name, wraps, least in ("fsdp", fsdp, 2 * MIB), ("ddp", ddp, MIB):
        result = python(begin + wraps + end, "--ranks", 2, "--report", FOLDER / name).ends(0)
        size, lines = alive(result, "sharding buffers")
        line = (begin + wraps + end).split("\n").index("loss.backward()") + 2
        result.check(size > least and f"<module> <string>:{line}" in lines and ".py:" not in lines, f"{size} bytes: {lines}")


def test_gathered_state():
    """A whole state dict that a program keeps on its GPU is what was gathered, and no activations."""
    program = """
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512)).cuda()
fully_shard(model)
state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=False))
block = torch.empty(1 << 20, device="cuda")
dist.destroy_process_group()
"""
    result = python(program, "--ranks", 2, "--report", FOLDER / "state").ends(0)
    _, lines = alive(result, "sharding buffers")
    line = next(number for number, text in enumerate(program.split("\n"), 2) if "state = " in text)
    result.check(f"{2 * (512 * 512 + 512) * 4:,} in 4 blocks, outside modules, <module> <string>:{line}" in lines, lines)


# night: labels of programs with threads
def test_threads():
    """What has no line of the program's in a thread is at the line that started it: replicas of DataParallel, a module as a thread's function. The thread of a
    pool works for others than the line that started it."""
    begin = """
import threading
from concurrent.futures import ThreadPoolExecutor
from torch import nn
x = torch.ones(4096, 512, device="cuda", requires_grad=True)
"""
    replicas = """
model = nn.DataParallel(nn.Sequential(nn.Linear(512, 512), nn.ReLU()).cuda())
out = model(x)
out.sum().backward()
"""
    own = """
thread = threading.Thread(target=nn.Linear(512, 512).cuda(), args=(x,))
kept = []
nn.modules.module.register_module_forward_hook(lambda module, given, out: kept.append(out))
thread.start()  # here
thread.join()
"""
    pool = """
with ThreadPoolExecutor(1) as workers:
    workers.submit(len, ()).result()
    out = workers.submit(nn.Linear(512, 512).cuda(), x).result()
"""
    for name, program, line in ("replicas", replicas, "model(x)"), ("own", own, "# here"), ("pool", pool, None):
        result = python(begin + program, "--devices", 2, "--report", FOLDER / name).ends(0)
        _, lines = alive(result, "activations")
        number = next((number for number, text in enumerate((begin + program).split("\n"), 2) if line and line in text), None)
        result.check(f"<module> <string>:{number}" in lines if line else "<string>" not in lines, f"{name}: {lines}")
