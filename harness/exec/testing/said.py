"""Runs of `tidemark exec` with their output and exit code, for the tests: a test's arguments are TIDEMARK SITE CASE, its cases are functions `case_CASE`."""
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIDEMARK, SITE, CASE = sys.argv[1:4]
HERE = Path(__file__).parent
MIB = 1 << 20
FOLDER = Path(tempfile.mkdtemp())
checks = [0]


class Said:
    def __init__(self, *words, path=SITE, **environment):
        begun = time.monotonic()
        full = {**os.environ, "PYTHONPATH": path, **environment}
        done = subprocess.run([TIDEMARK, "exec", *map(str, words)], capture_output=True, text=True, env=full, check=False, timeout=200)
        self.words, self.code, self.out, self.err = words, done.returncode, done.stdout, done.stderr
        self.seconds = time.monotonic() - begun

    def check(self, holds, what):
        checks[0] += 1
        if not holds:
            sys.exit(f"FAILED: {what}: exec {self.words}\nexit code {self.code}\n{self.out}\n{self.err}")

    def ends(self, code, *texts):
        self.check(self.code == code, f"exit code {code}")
        for text in texts:
            self.check(text in self.err, f"no {text!r} on stderr")
        return self

    def refuses(self, *texts):
        """A mistake: exit code 2 and one line."""
        self.ends(2, *texts)
        self.check(self.err.startswith("error: exec: ") and self.err.count("\n") == 1 and not self.out, "one line alone")


def python(text, *flags, **more):
    return Said(*flags, "--", sys.executable, "-c", "import torch\n" + text, **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run(cases):
    cases[f"case_{CASE}"]()
    print(f"{CASE}: {checks[0]} checks")
