"""Kinds, names and lines of memory: tensors that change hands, a module of several places, folders that are named like PyTorch's."""
from labels_test import alive
from testing.said import FOLDER, MIB, python


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
    end = result.err[result.err.index("alive at the program's end"):].splitlines()[0]
    recurrent = 4 * (8 * 512 * 512 + 8 * 512)
    result.check(f"parameters {recurrent + 8 * MIB:,}" in end, "the recurrent network's weights and the model's")
    for kind, what in (("gradients", "which the program makes"), ("optimizer state", "which lies in objects")):
        result.check(f"{kind} {8 * MIB:,}" in end, f"{kind}, {what}")
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
    result.check(alive(result, "optimizer state")[0] == 4 * MIB and "other" not in result.err[result.err.index("alive at the highest"):result.err.index("held without")], result.err)
