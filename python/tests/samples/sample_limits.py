"""Limits of tests; test_limits.py looks at what pytest says."""
import os

import pytest
import torch

import tidemark

MIB = 1 << 20


def grow(memory, steps, size):
    kept = []
    for _ in memory.steps(steps):
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


@tidemark.limit("2MiB", of="allocated")
def test_keeps_its_limit(memory):
    assert torch.empty(2 * MIB, dtype=torch.uint8, device="cuda").numel() == memory.now().allocated


@tidemark.limit("2MiB", of="allocated")
def test_is_over_its_limit():
    torch.empty(2 * MIB + 1, dtype=torch.uint8, device="cuda")


@tidemark.limit("19MiB")
def test_reserves_more():
    torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")  # of a segment of 20 MiB


@tidemark.limit_growth("1MiB")
def test_grows_as_it_may(memory):
    grow(memory, 4, MIB)


@tidemark.limit_growth("1MiB")
def test_grows_more(memory):
    grow(memory, 4, MIB + 1)


@tidemark.limit_growth()
def test_has_no_steps():
    pass


@tidemark.limit("2MiB", of="requested")
@tidemark.pair(baseline="wide", fixed=["narrow"])
def test_baseline_may_be_over(variant, memory):
    return torch.zeros(MIB if variant == "wide" else MIB // 4, device="cuda").sum()


@tidemark.pair(baseline="wide", fixed=["narrow"])
def test_pair_has_no_golden(variant, memory):
    memory.matches_golden()


@tidemark.ranks(2)
def test_fails_with_blocks(memory):
    model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
    output = model(torch.ones(256, 1024, device="cuda"))
    assert memory.rank == 0, output.shape


@pytest.fixture
def world():
    return "the project's own"


def test_own_fixture(world):
    assert world == "the project's own" and "TIDEMARK_EXEC" not in os.environ
