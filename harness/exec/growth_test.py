"""Memory that grows only in every n-th step, in a program that also keeps memory without growing."""
import random

from testing.said import FOLDER, python

PROGRAM = """
from torch import nn
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
    said = python(f"EVERY, FIRST, AT = {every}, {first}, {at}" + PROGRAM, "--report", FOLDER / "every").ends(0)
    begins = first or every
    often = f"every {every}{ {2: 'nd', 3: 'rd'}.get(every, 'th')} step since step {begins}: 1 MiB in 1 block"
    said.check(f"grows by 1 MiB {often}, activations, module *, forward <string>:" in said.err, often)
    said.check(f"; held by attribute `seen` of module {at} (Layer)" in said.err, "which object holds it")


def test_full():
    """An evaluation's result, and a ring of six tensors that is full."""
    said = python("EVERY, FIRST, AT = 0, 0, 0" + PROGRAM, "--report", FOLDER / "full").ends(0)
    said.check("grows by" not in said.err, "nothing grows")
