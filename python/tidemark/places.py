"""Places in which a test's processes run: in the Python and the tree of the pytest that starts them, or, as a variant of a pair may ask, in another Python or in
another commit of the repository."""
from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidemark import files
from tidemark.verdict import Misuse
from tidemark.version import facts_folder

PACKAGE = Path(os.path.dirname(os.path.abspath(__file__)))
PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli")  # and what it imports

# The real GPUs of this pytest's job, and its place in it where a launcher has started it: not those of a test's ranks.
OF_THE_JOB = {"CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}


class Place:
    """`path` is the processes' sys.path; None: their Python's own, between `before` and `after`."""

    def __init__(self) -> None:
        self.python, self.path, self.before, self.after = sys.executable, [place for place in sys.path if place != str(PACKAGE)], [], []
        self.environment = {name: value for name, value in os.environ.items() if name not in OF_THE_JOB}
        self.tree = self.copy = None  # the working tree and the commit's
        self.elsewhere, self.commit = False, ""

    def at(self, path: Any) -> Any:
        """The same file or folder in the commit's tree, where it is there."""
        path = os.path.realpath(path or os.getcwd())
        if self.copy is None or not Path(path).is_relative_to(self.tree):
            return path
        other = self.copy / Path(path).relative_to(self.tree)
        return str(other) if other.exists() else path

    def take_commit(self, folder: str, item: pytest.Item, commit: str | None) -> None:
        """A checkout in which the test's file, the conftest.py files above it and pytest's settings alone are today's."""
        of_test = item.path.parent
        self.tree = Path(git(of_test, "rev-parse", "--show-toplevel")[0])
        hashes = git(self.tree, "rev-parse", "--verify", "--quiet", commit + "^{commit}")
        if not hashes:
            raise Misuse(f"tidemark.pair: {self.tree} has no commit {commit}")
        self.copy, index = Path(folder, "tree"), {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git(self.tree, "read-tree", hashes[0], **index)
        git(self.tree, "checkout-index", "--all", f"--prefix={self.copy}/", **index)
        of_today = [item.path, item.config.inipath, *(above / "conftest.py" for above in (of_test, *of_test.parents) if above.is_relative_to(self.tree))]
        for file in of_today:
            if file is not None and file.exists() and file.is_relative_to(self.tree):
                other = self.copy / file.relative_to(self.tree)
                other.parent.mkdir(parents=True, exist_ok=True)
                with files.create(other, binary=True) as copied:  # the commit may have a link there
                    copied.write(file.read_bytes())
        self.path = [self.at(place) for place in self.path]
        self.commit = f"commit {hashes[0][:12]}"

    def take_python(self, root: str, python: str | None) -> None:
        """Another Python: of the path of this one it sees the project's own folders, tidemark, and pytest where it has none."""
        python = os.path.join(root, python)
        if os.path.isdir(python):
            python = os.path.join(python, "bin", "python")
        if not os.access(python, os.X_OK):
            raise Misuse(f"tidemark.pair: the Python {python} cannot be run: name an environment's folder, or its executable")
        self.python, self.before, self.path = python, [place for place in self.path if self.is_projects(place, root)], None
        of_variable = self.environment.pop("PYTHONPATH", "").split(os.pathsep)
        if kept := [self.at(place) for place in of_variable if place and self.is_projects(place, root)]:
            self.environment["PYTHONPATH"] = os.pathsep.join(kept)

    def is_projects(self, place: str, root: str) -> bool:
        """In the project, and no folder of packages that belongs to this Python."""
        place = Path(os.path.realpath(place or os.getcwd()))
        of_python = [sys.prefix, *sysconfig.get_paths().values()]
        return any(place.is_relative_to(own) for own in (root, self.copy) if own) and not any(place.is_relative_to(os.path.realpath(one)) for one in of_python)

    def link_packages(self, folder: str) -> None:
        """This tidemark comes first, whatever the other place has; pytest last."""
        first, last = os.path.join(folder, "first"), os.path.join(folder, "last")
        os.mkdir(first)
        os.mkdir(last)
        os.symlink(PACKAGE, os.path.join(first, "tidemark"))
        facts = facts_folder()
        if os.path.isdir(facts):  # by its entry point pytest finds the plugin
            os.symlink(facts, os.path.join(first, os.path.basename(facts)))
        for name in PYTEST:
            module = sys.modules.get(name)
            if module is not None and module.__file__:
                file = Path(module.__file__)
                file = file.parent if file.name == "__init__.py" else file
                os.symlink(file, os.path.join(last, file.name))
        if self.path is None:
            self.before, self.after = [first, *self.before], [last]
        else:
            self.path = [first, *self.path]


def git(folder: Any, *words: str, **environment: str) -> list[str]:
    """The lines that git prints; none where it fails."""
    try:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    except FileNotFoundError:
        raise Misuse("tidemark.pair: there is no git on PATH, which a variant of another commit needs") from None
    if done.returncode != 0 and "--quiet" not in words:
        raise Misuse(f"tidemark.pair: git {words[0]} in {folder}: {(done.stderr.strip().splitlines() or ['has failed'])[-1]}")
    return done.stdout.splitlines()


@contextlib.contextmanager
def place_of(item: pytest.Item, python: str | None = None, commit: str | None = None) -> Iterator[Place]:
    """The place of a test's processes, or of a variant's that names a Python or a commit. Raises Misuse."""
    place = Place()
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        if commit is not None:
            place.take_commit(folder, item, commit)
        if python is not None:
            place.take_python(str(item.config.rootpath), python)
        if python is not None or commit is not None:
            place.link_packages(folder)
            place.elsewhere = True
        yield place


def strays(tree: str, copy: str) -> list[str]:
    """Modules that a process of another commit has imported from the working tree."""
    def stray(file: Any) -> bool:
        return file and Path(file).is_relative_to(tree) and not Path(file).is_relative_to(PACKAGE) and Path(copy, Path(file).relative_to(tree)).exists()

    return sorted(name for name, module in list(sys.modules.items()) if stray(getattr(module, "__file__", None)))
