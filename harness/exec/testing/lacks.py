"""What a test wants and this machine lacks."""
import os

import pytest


def lacks(what):
    """Fails the test for want of what `ci/setup tests` brings. It is skipped where that had no root to install packages with (ci/test)."""
    if os.environ.get("TIDEMARK_TEST_LACKS") == "1":
        pytest.skip(f"there is no {what}")
    pytest.fail(f"there is no {what}: ci/setup tests brings it")
