"""TOML files, read by Python's own parser or, before Python 3.11, by tomli, which pytest brings there."""
from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tidemark import files


class TomlError(Exception):
    """What is wrong with the file, in a line."""


def read(path: str) -> dict[str, Any]:
    """The tables of a file. Raises TomlError."""
    try:
        return tomllib.loads(files.read(path))
    except (OSError, ValueError, RecursionError) as error:
        raise TomlError(" ".join(str(error).split())) from None
