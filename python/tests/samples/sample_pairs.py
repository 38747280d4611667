"""Pairs of every outcome, of one function."""
import torch

import tidemark

ROWS, WIDTH = 256, 1024
U = 4 * ROWS * WIDTH


def train(variant, memory):
    """The baseline keeps a copy of an activation through forward."""
    torch.manual_seed(0)
    weight, leaked = torch.randn(ROWS, WIDTH, device="cuda", requires_grad=True), []
    for _ in memory.steps(3):
        with memory.phase("forward"):
            out = weight * 2
            copied = out.clone() if variant == "copies" else out
            if variant == "other_values":
                out += 1
            if variant == "leaks":
                leaked.append(out.detach())
            if variant == "ends":
                raise ValueError("a wrong fix")
        loss = out.sum()
        del out, copied
        loss.backward()
        gradient, weight.grad = weight.grad, None
        with torch.no_grad():
            weight -= 0.125 * gradient
        value = loss.detach()
        del loss, gradient
    memory.rise("forward", step=1).requested.equals("n*U", n=2 if variant == "copies" else 1, U=U)
    memory.saving("forward").requested.equals("U", U=U)
    del leaked
    return value, weight


@tidemark.pair(baseline="copies", fixed=["fixed"], controls={"other_values": "parity/", "leaks": "rest/", "ends": "failure/"})
def test_holds(variant, memory):
    return train(variant, memory)


@tidemark.pair(baseline="copies", fixed=["fixed"], controls={"innocent": "races/"})
def test_control_is_not_caught(variant, memory):
    return train(variant, memory)


@tidemark.pair(baseline="copies", fixed=["leaks", "other_values"])
def test_wrong_fixes(variant, memory):
    return train(variant, memory)


@tidemark.pair(baseline="wide", fixed=["narrow"])
def test_other_shapes(variant, memory):
    return torch.ones(4 if variant == "wide" else 3, device="cuda")


@tidemark.pair(baseline="one", fixed=["two"])
def test_returns_nothing(variant, memory):
    pass
