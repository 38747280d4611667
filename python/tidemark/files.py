"""The one way in which tidemark's Python writes files (ci/structure): what was there is replaced, and never written through. CMake puts a
copy beside the modules of `tidemark exec`, as tidemark_files.py."""
from __future__ import annotations

import contextlib
import os
import stat
from typing import IO, Any


def _new(path: str, flags: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # a file or a link; what another process has open stays its own
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def _there(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def create(path: str | os.PathLike[str], binary: bool = False) -> IO[Any]:
    """A new file, open for writing. A file or link that has its name goes first."""
    return open(path, "wb" if binary else "w", encoding=None if binary else "utf-8", opener=_new)


def append(path: str | os.PathLike[str]) -> IO[Any]:
    """A file, open for writing at its end. No link is followed."""
    return open(path, "a", encoding="utf-8", opener=_there)


def read(path: str | os.PathLike[str], most: int = 4 << 20) -> str:
    """The text of a file: not of a pipe, which may never end, nor of a device or a folder. Raises OSError, or ValueError in one line."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("it is a pipe or a device, not a file")
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes, which is the most that is read")
    return content.decode()


def not_ours(folder: str) -> str:
    """Why what lies in a folder cannot be taken for what this user has put there: it is another user's, or others can write to it or to a folder
    above it. "" where it can, and where there is none."""
    place = os.path.abspath(folder)
    while True:
        with contextlib.suppress(FileNotFoundError):
            facts = os.stat(place)
            top = place == os.path.abspath(folder)
            if facts.st_uid != os.geteuid() and (top or facts.st_uid != 0):
                return f"{place} belongs to another user"
            if facts.st_mode & 0o022 and (top or not facts.st_mode & stat.S_ISVTX):
                return f"other users can write to {place}"
        if place == os.path.dirname(place):
            return ""
        place = os.path.dirname(place)
