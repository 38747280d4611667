"""Checks of a test script: one that does not hold is a line of its output, and fails the script at its end."""
import re
import sys
import tempfile
from pathlib import Path

failures = []


def check(holds, what, seen=""):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}" + (f"\n    {seen}" if seen else ""))


def without_mpirun(stderr):
    """What the ranks said, without what mpirun says of their exit codes; Open MPI 5 has no option for that."""
    return re.sub(r"(?ms)^-{70,}\n.*?^-{70,}\n\n?", "", stderr)


def in_scratch(test, result):
    """Calls `test` with a folder of its own, prints `result` or how many checks failed, and ends the script."""
    with tempfile.TemporaryDirectory(prefix="tidemark-", ignore_cleanup_errors=True) as folder:
        test(Path(folder))
    print(f"{len(failures)} failed" if failures else result)
    sys.exit(1 if failures else 0)


def executable(path, text):
    """Writes a program that stands in for another one."""
    path.write_text(text)
    path.chmod(0o755)
    return path
