"""The part of a table of cases that a run of the tests takes, as part.h."""
import os


def drawn(cases, parts=8):
    """The cases of the part that TIDEMARK_TEST_DRAW says (ci/test); without it all of them."""
    draw = os.environ.get("TIDEMARK_TEST_DRAW")
    return list(cases) if draw is None else list(cases)[int(draw) % parts::parts]
