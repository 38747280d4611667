"""Tests with a mistake, or that end in an odd way; test_outcomes.py looks at what pytest says."""
import os

import pytest
import torch
import torch.distributed as dist

import tidemark


@tidemark.as_rank([0, 1], of=3)
def test_ranks_in_a_list():
    pass


@tidemark.as_rank(1, 1, of=3)
def test_rank_twice():
    pass


@tidemark.as_rank(of=3)
def test_no_rank():
    pass


@tidemark.mode("nonsense")
@tidemark.schedule("nonsense")
def test_no_such_mode():
    pass


def test_bytes_that_are_none(memory):
    memory.value("half", 1.5).equals("1")


def test_huge_power(memory):
    memory.held().equals("(((2^64)^64)^64)^64")


@tidemark.ranks(2)
def test_partner_leaves(memory, world):
    if memory.rank == 1:
        os._exit(0)
    dist.all_reduce(torch.ones(3, device="cuda"))
    torch.cuda.synchronize()


def test_ends_pytest(memory):
    pytest.exit("enough")


def test_fails_in_a_fork(memory):
    child = os.fork()
    if child == 0:
        raise AssertionError("in the copy")
    os.waitpid(child, 0)
