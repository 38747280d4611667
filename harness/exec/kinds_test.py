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
