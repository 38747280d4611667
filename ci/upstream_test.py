#!/usr/bin/env python3
"""ci/upstream without released code: rows that need the user's sources are not run, by name, and the exit code is 77; sources of a commit are taken out of a
git repository; memory tests and PyTorch's own tests (suite_test.py) of a checkout are counted, each by its outcome, on a stand-in for tidemark that runs the
program alone."""
import os
import subprocess
import sys
from pathlib import Path

CI = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(CI), str(CI.parent / "harness" / "cli")]
from checks import check, executable, in_scratch  # noqa: E402


def upstream(work, *words, **environment):
    done = subprocess.run([sys.executable, CI / "upstream", *words], capture_output=True, text=True, check=False, cwd=work,
                          env={**os.environ, "TIDEMARK_BIN": str(work / "tidemark"), "TIDEMARK_WHEELS": str(work / "wheels"), **environment})
    return done.returncode, done.stdout + done.stderr


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


def test(work):
    executable(work / "tidemark", '#!/bin/sh\n[ "$1" != report ] || exit 0\nwhile [ "$1" != -- ]; do shift; done\nshift\n'
               '[ "$3" != torch.distributed.run ] || { python=$1; shift 5; exec "$python" "$@"; }\nexec "$@"\n')
    os.environ.pop("TIDEMARK_NANOTRON", None)

    code, said = upstream(work, "tp_buffer_reuse", "--with", sys.executable, "--rows", "the change, small, 2 ranks")
    check(code == 77 and "Not run:" in said and "the change, small, 2 ranks: set TIDEMARK_NANOTRON to a git repository" in said, f"not run: {code} {said}")

    repository = work / "nanotron"
    repository.joinpath("src").mkdir(parents=True)
    for text in ("1", "2"):
        repository.joinpath("src/version").write_text(text)
        git(work, "init", "-q", repository)
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", text)
    git(repository, "tag", "newest")
    git(repository, "tag", "first", "HEAD~1")
    os.environ |= {"TIDEMARK_NANOTRON": str(repository), "TIDEMARK_WHEELS": str(work / "wheels")}
    import environments

    for tag, text in (("newest", "2"), ("first", "1")):
        check(environments.beside(f"nanotron@{tag}").joinpath("version").read_text() == text, f"sources of {tag}")
    code, said = upstream(work, "tp_buffer_reuse", "--with", sys.executable, "--rows", "the change, small, 2 ranks")
    check(code == 3 and "no environment" in said, f"a repository without the commit: {code} {said}")

    checkout = work / "fairscale"
    tests = checkout / "tests/nn/data_parallel/test_fsdp_memory.py"
    tests.parent.mkdir(parents=True)
    right = "import pytest\n\ndef test_right():\n    pass\n\ndef test_skipped():\n    pytest.skip('not today')\n"
    tests.write_text(right)
    code, said = upstream(work, "--tests", checkout, "--with", sys.executable)
    check(code == 0 and "| tests/nn/data_parallel/test_fsdp_memory.py | 1 | 0 | 0 | 1 |" in said and "not today" in said, f"right: {code} {said}")
    check("| test/test_cuda.py | not found | | | |" in said, f"a file that is not there: {said}")
    tests.write_text(right + "\ndef test_wrong():\n    raise ValueError('off by one')\n")
    code, said = upstream(work, "--tests", checkout, "--with", sys.executable)
    check(code == 1 and "| 1 | 1 | 0 | 1 |" in said and "test_wrong" in said and "off by one" in said, f"wrong: {code} {said}")
    for name, text in (("test/test_cuda.py", "def test_memory(): pass\ndef test_other(): pass\n"), ("src/accelerate/test_utils/scripts/test_ops.py", "raise ValueError('ranks differ')\n"),
                       ("src/accelerate/test_utils/scripts/test_sync.py", "")):
        checkout.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        checkout.joinpath(name).write_text(text)
    code, said = upstream(work, "--tests", checkout, "--with", sys.executable)
    check(said.count("| test/test_cuda.py") == said.count("| 1 | 0 | 0 | 0 |") - 1 == 2, f"a part of a file, with two settings: {said}")
    check("| src/accelerate/test_utils/scripts/test_ops.py | 0 | 1 | 0 | 0 |" in said and "test_ops.py::(program): ValueError: ranks differ" in said, f"programs: {said}")
    tests.write_text("import nothing_of_this_name\n")
    code, said = upstream(work, "--tests", checkout, "--with", sys.executable)
    check(code == 1 and "nothing_of_this_name" in said, f"cannot be imported: {code} {said}")
    code, said = upstream(work, "--tests", work, "--with", sys.executable)
    check(code == 2 and "no test file is in" in said, f"no test file: {code} {said}")

    import suite_test

    suite_test.test(work, upstream)


if __name__ == "__main__":
    in_scratch(test, "what is not here is said, and tests are counted")
