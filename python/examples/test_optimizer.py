"""Temporaries of optimizers, gradients over several microbatches, and the gradient scaler's checks."""
import pytest
import torch

LAYERS, WIDTH = 4, 512
p = 4 * WIDTH * WIDTH  # bytes of one parameter


def model():
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]).cuda()


@pytest.mark.parametrize("kind, formula", [("foreach", "L*p"), ("fused", "0"), ("for loop", "3*p")])
def test_temporaries_of_adamw(memory, kind, formula):
    """foreach takes the square roots of all second moments at once, fused works in registers; the loop has the root, its quotient and,
    until that has its name, the one of the parameter before."""
    parameters = [torch.nn.Parameter(torch.randn(WIDTH, WIDTH, device="cuda")) for _ in range(LAYERS)]
    optimizer = torch.optim.AdamW(parameters, foreach=kind == "foreach", fused=kind == "fused")
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()  # makes the moments
    with memory.phase("step"):
        optimizer.step()
    memory.rise("step").requested.equals(formula, L=LAYERS, p=p)


def test_accumulation_adds_in_place(memory):
    """After the first microbatch there are gradients of all parameters, after the others no byte more, and zero_grad gives them back."""
    layers = model()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    batch = torch.randn(16, WIDTH, device="cuda")
    layers(batch).sum().backward()
    optimizer.zero_grad()
    before = memory.held()
    for i in range(3):
        layers(batch).sum().backward()
        memory.value(f"gradients after microbatch {i}", memory.held() - before).equals("L*p", L=LAYERS, p=p)
    optimizer.step()
    optimizer.zero_grad()
    memory.value("after zero_grad", memory.held() - before).equals("0")


def test_unscaling_is_in_place(memory):
    """Four numbers of four bytes at its highest, however large the gradients: the reciprocal of the scale, whether a gradient is infinite, and a copy of
    each for the device; while the reciprocal is computed, two of eight."""
    layers = model()
    optimizer, scaler = torch.optim.SGD(layers.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
    for name in ("first", "unscale"):
        scaler.scale(layers(torch.randn(16, WIDTH, device="cuda")).sum()).backward()
        with memory.phase(name):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    memory.rise("unscale").requested.equals("max(2*d, 4*s)", d=8, s=4)
