"""Runs of `tidemark exec`, or of another command, with their output and exit code, for the tests. The variables TIDEMARK_BIN and TIDEMARK_DEPS name the
executable, and the folder with torch in python/."""
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parents[1] / "testing"), str(HERE.parents[2] / "reports")]
import exec_server  # noqa: E402
import valid  # noqa: E402
from part import drawn, seed  # noqa: E402, F401

ROOT = HERE.parents[2]
TIDEMARK = os.path.abspath(os.environ.get("TIDEMARK_BIN", ROOT / "build/dev/tidemark"))
SITE = os.path.abspath(Path(os.environ.get("TIDEMARK_DEPS", ROOT / ".deps")) / "python")
MIB = 1 << 20
FOLDER = Path(tempfile.mkdtemp())
SERVER = os.environ.get("EXEC_SERVER")  # the link of exec_server.py: programs are copies of a process that has imported torch


class Said:
    def __init__(self, *words, command="exec", path=SITE, folder=None, most=200, **environment):
        begun, wall = time.monotonic(), time.time()
        self.words = [command, *map(str, words)]
        full = {**os.environ, "PYTHONPATH": str(path), **environment}
        if command == "exec" and SERVER and "TIDEMARK_EXEC_SETTINGS" not in full:
            full = exec_server.served(full)
        done = subprocess.run([TIDEMARK, *self.words], capture_output=True, text=True, cwd=folder, env=full, check=False, timeout=most)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.seconds = time.monotonic() - begun
        valid.check_written(TIDEMARK, self.words, wall, folder)

    def check(self, holds, what):
        if not holds:
            pytest.fail(f"{what}: {self.words}\nexit code {self.code}\n{self.out}\n{self.err}")

    def ends(self, code, *texts):
        self.check(self.code == code, f"exit code {code}")
        for text in texts:
            self.check(text in self.err, f"no {text!r} on stderr")
        return self

    def refuses(self, *texts):
        """A mistake: exit code 2 and one line."""
        self.ends(2, *texts)
        self.check(self.err.startswith(f"error: {self.words[0]}: ") and self.err.count("\n") == 1 and not self.out, "one line alone")


def python(text, *flags, **more):
    return Said(*flags, "--", sys.executable, "-c", "import torch\n" + text, **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
