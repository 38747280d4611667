"""Pairs of every outcome, of one function."""
import pytest
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


@tidemark.pair(baseline="one", fixed=["two"])
def test_same_names(variant, memory):
    return {"x": {"y": torch.ones(2)}, "x.y": torch.ones(2) if variant == "one" else torch.zeros(2)}


@tidemark.pair(baseline="one", fixed=["two"])
def test_sparse(variant, memory):
    return torch.eye(3).to_sparse()


@pytest.mark.xfail(strict=True, reason="known")
@tidemark.pair(baseline="one", fixed=["two"])
def test_expected_to_fail(variant, memory):
    return torch.tensor([1.0 if variant == "one" else 2.0])


@pytest.mark.skip(reason="not here")
@tidemark.pair(baseline="one", fixed=["two"])
def test_skipped(variant, memory):
    pass


@tidemark.as_rank(0, of=8)
@tidemark.pair(baseline="one", fixed=["two"])
def test_without_partners(variant, memory):
    return torch.ones(3)
