"""The part of a table of cases that a run of the tests takes, as part.h, and the seed of random ones."""
import os
import time


def drawn(cases, parts=8):
    """The cases of the part that TIDEMARK_TEST_DRAW says (ci/test); without it all of them."""
    draw = os.environ.get("TIDEMARK_TEST_DRAW")
    return list(cases) if draw is None else list(cases)[int(draw) % parts::parts]


def seed():
    """The seed of random cases: TIDEMARK_TEST_SEED, else TIDEMARK_TEST_DRAW, else one by the clock."""
    return int(os.environ.get("TIDEMARK_TEST_SEED") or os.environ.get("TIDEMARK_TEST_DRAW") or time.time_ns() % 1_000_000)
