"""Tests of every outcome; test_outcomes.py runs them and looks at what pytest says. Those that one server can run stand together: each import of torch takes
three CPU seconds."""
import os
import signal
import time

import pytest
import torch

import tidemark

MIB = 1 << 20


@pytest.fixture(scope="module")
def ordinary():
    yield os.getpid()


def test_ordinary(ordinary):
    assert "TIDEMARK_EXEC" not in os.environ


@tidemark.ranks(2)
@pytest.mark.parametrize("megabytes", [3])
def test_passes(memory, world, megabytes, tmp_path):
    (tmp_path / "file").write_text("of this rank alone")
    with memory.phase("outer"):
        first = torch.empty(megabytes * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda.reset_peak_memory_stats()  # the program's own
        with torch.profiler.record_function("inner"):
            second = torch.empty(MIB, dtype=torch.uint8, device="cuda")
            del second
    del first
    assert torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated() == (megabytes + 1) * MIB
    memory.rise("outer").requested.equals("(n + 1)*M", n=megabytes, M=MIB)
    memory.rise("inner").requested.equals("M", M=MIB)
    torch.distributed.all_reduce(torch.zeros(MIB, device="cuda"))
    assert memory.collectives() == {"all_reduce": (1, 4 * MIB)}


def test_ordinary_again(ordinary):
    assert ordinary == os.getpid()


@tidemark.ranks(2)
def test_fails_on_rank_1(memory):
    with memory.phase("forward"):
        kept = torch.empty((1 + memory.rank) * MIB, dtype=torch.uint8, device="cuda")
    memory.rise("forward").requested.equals("M", M=MIB)
    del kept


@tidemark.ranks(2)
def test_killed(memory):
    if memory.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(100)


def test_words_of_a_refusal():
    """The program's own error, with words that the platform has."""
    raise RuntimeError("the size depends on values that are not known; CUDA error: operation not supported")


def test_no_such_phase(memory):
    memory.peak("backward")


@tidemark.as_rank(9, of=8)
def test_rank_does_not_fit():
    pass


@tidemark.ranks(0)
def test_no_ranks():
    pass


@tidemark.schedule("lagging")
@tidemark.mode("known")
def test_refused():
    values = torch.ones(MIB, device="cuda")
    values[values > 0]


@tidemark.schedule("lagging")
@tidemark.mode("known")
def test_skipped(memory):
    pytest.skip("not here")


@tidemark.mode("math")
def test_refused_numbers():
    one = torch.rand(1, 2, 16, 32, device="cuda", dtype=torch.float16)
    torch.ops.aten._scaled_dot_product_flash_attention(one, one, one, 0.5, return_debug_mask=True)


@tidemark.gpu("abacus")
def test_no_such_gpu():
    pass


@tidemark.timeout(12)
@tidemark.ranks(1)
def test_too_slow():
    time.sleep(1000)


@tidemark.ranks(1)
def test_leaves_its_group_alive():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555")
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    torch.distributed.all_reduce(torch.ones(4, device="cuda"))
