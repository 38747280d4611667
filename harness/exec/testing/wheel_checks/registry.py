"""Checks of wheel.py: which there are, and what they compare with."""
import re

import torch


MIB = 1 << 20
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
CHECKS = {"alone": [], "attention": [], "compiled": [], "ranks": [], "absent": [], "training": []}
RELEASE = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])


class Mode:
    """What wheel.py was asked for."""

    numbers = True  # mode math: results are there to be compared
    group = ""


class Absent(Exception):
    """What the release or the environment does not have."""


def check(*groups):
    def add(function):
        for group in groups:
            CHECKS[group].append(function)
        return function
    return add


def since(*release):
    if RELEASE < release:
        raise Absent(f"since torch {'.'.join(map(str, release))}")


def equal(one, other):
    if Mode.numbers:
        assert torch.equal(one.detach().cpu(), other.detach().cpu()), f"{one} is not {other}"


def close(one, other, digits=5):
    """Within 10^-digits of the largest value: sums are in another order than the CPU's."""
    if Mode.numbers:
        other = other.detach().float()
        difference = (one.detach().cpu().float() - other).abs().max().item()
        assert difference <= 10.0 ** -digits * max(other.abs().max().item(), 1), f"off by {difference}"


def trains(make, draw, optimizer=None, steps=2, digits=None):
    """Steps on the device, and the same on the CPU: the parameters are compared."""
    results = []
    for device in ("cuda", "cpu") if Mode.numbers and digits is not None else ("cuda",):
        torch.manual_seed(0)
        net = make().to(device)
        update = (optimizer or (lambda parameters: torch.optim.SGD(parameters, 0.125)))(net.parameters())
        for step in range(steps):
            loss = net(draw(step).to(device)).square().mean()
            update.zero_grad()
            loss.backward()
            update.step()
        results.append([p.detach() for p in net.parameters()])
    for one, other in zip(results[0], results[-1]):
        if digits is not None:
            close(one, other, digits)


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 8))


def batch(rank, step):
    return torch.randn(8, 24, generator=torch.Generator().manual_seed(100 * step + rank))
