"""The `tidemark` that this package starts."""
from __future__ import annotations

import os
import shutil
import sys

from tidemark.misuse import Misuse

HERE = os.path.dirname(os.path.abspath(__file__))


def executable(on_path: bool = True) -> str:
    """The `tidemark` that is started: TIDEMARK, the wheel's own, or that of PATH. Raises Misuse where there is none."""
    if not sys.platform.startswith("linux"):
        raise Misuse(f"tidemark: runs on Linux alone, and this is {sys.platform}: use the image (docker run --rm -v \"$PWD:/src\" -w /src tidemark "
                     "tidemark exec -- python train.py)")
    own = os.path.join(HERE, "platform", "tidemark")
    path = os.environ.get("TIDEMARK") or (own if os.path.exists(own) else shutil.which("tidemark") if on_path else None)
    if path is None:
        raise Misuse("tidemark: there is no `tidemark` on PATH: install the wheel, or let TIDEMARK name the executable")
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise Misuse(f"tidemark: TIDEMARK={path} cannot be run: let it name the executable `tidemark`")
    return path
