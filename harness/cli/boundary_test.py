"""The one boundary of every command: a reader that throws anything is a fault of tidemark in one line, and memory that ends in a reader is named. The
faults come from a library that is preloaded into the real command (testing/throwing.cpp), in the place where it reads its file."""
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from command import BINARY, ROOT, environment, seed
from hostile_test import a_line

CORPUS = ROOT / "harness/cli/testing/corpus"
THROWING = os.environ.get("THROWING", ROOT / "build/dev/stand_in/libthrowing.so")
SEED = seed()
THROWN = ("logic_error", "out_of_range", "length_error", "exception", "number", "bad_alloc")

# Reader of readers_test.cpp, a file of its corpus, its place, the command that reads it there.
COMMANDS = [
    ("report", "program.json", "report.json", "report ."),
    ("report", "program.json", "report.json", "report . --json"),
    ("report", "program.json", "report.json", "compare . ."),
    ("report", "program.json", "report.json", "compare . . --format html"),
    ("record", "of.record", "of.record", "snapshot show of.record"),
    ("snapshot", "of.pickle", "of.pickle", "snapshot show of.pickle"),
    ("snapshot", "of.pickle", "of.pickle", "snapshot convert of.pickle --to perfetto --out out --force"),
    ("snapshot", "of.pickle", "of.pickle", "compare of.pickle of.pickle"),
    ("losses", "log.txt", "log.txt", "compare losses log.txt log.txt"),
    ("events", "recording.json", "recording.json", "compare --events recording.json recording.json"),
    ("numbers", "of.safetensors", "numbers/of.safetensors", "compare --numbers . ."),
    ("history", "of.sqlite", "history.sqlite", "history . --metric *"),
    ("job", "job", "ranks/job", "report ."),
    ("checkpoint", "plan", "unfinished/plan", "report ."),
    ("tests", "tests.jsonl", "tests.jsonl", "report ."),
    ("prices", "prices.txt", "prices.txt", "fit --prices prices.txt --vary a=1,2 -- /nosuch {a}"),
    ("profile", "t4.json", "t4.json", "fit --gpu ./t4.json --vary a=1,2 -- /nosuch {a}"),
    ("pyproject", "pyproject.toml", "pyproject.toml", "exec -- /bin/true"),
    ("pyproject", "settings.toml", "settings.toml", "fit --config settings.toml"),
]


@pytest.fixture(params=COMMANDS, ids=lambda one: f"{one[0]}: {one[3]}")
def command(request, folder):
    """Runs a command on a fresh copy of a file of the corpus."""
    reader, of_corpus, place, words = request.param

    def run(**more):
        for old in list(folder.iterdir()):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        Path(place).parent.mkdir(exist_ok=True)
        shutil.copy(CORPUS / reader / of_corpus, place)
        variables = {f"TIDEMARK_TEST_{name.upper()}": str(value) for name, value in more.items()}
        return subprocess.run([BINARY, *words.split()], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
                              env=environment(LD_PRELOAD=str(THROWING), TIDEMARK_TEST_FILE=Path(place).name, **variables))

    print("TIDEMARK_TEST_SEED", SEED)
    run.drawn = random.Random(f"{SEED} {request.param}")
    return run


def test_a_reader_that_throws(command):
    """No reader throws any of these exceptions on purpose."""
    for what in command.drawn.sample(THROWN, 3):
        done = command(throws=what)
        said = "the host has no memory left" if what == "bad_alloc" else "a fault of tidemark: "
        assert done.returncode == 3 and done.stdout == b"" and a_line(done.stderr).startswith(f"error: {said}"), (what, done)
        assert what == "bad_alloc" or b"please report it" in done.stderr, done


def test_memory_that_ends(command, folder):
    """Memory ends at an allocation after the file was opened, and with it all large ones or none: the command says that, or what it says otherwise."""
    count = folder.parent / "count"
    whole = command(allocation=0, count=count)
    last = int(count.read_text())
    assert last > 0
    for number in {command.drawn.randint(1, last) for _ in range(12)}:
        ends_in_a_line(command(allocation=f"{number}{command.drawn.choice(['', '+'])}"), whole)


def ends_in_a_line(done, whole):
    if (done.returncode, done.stdout, done.stderr) != (whole.returncode, whole.stdout, whole.stderr):
        said = b"".join(done.stderr.splitlines(keepends=True)[-1:])
        assert (done.returncode, said) == (3, b"error: the host has no memory left for this command\n"), (done, whole)


# night: fails each of some thousand allocations; test_memory_that_ends draws of them by day
def test_memory_that_ends_anywhere(command, folder):
    """The same at every allocation of a command that makes few."""
    count = folder.parent / "count"
    whole = command(allocation=0, count=count)
    last = int(count.read_text())
    for number in range(1, last + 1 if last < 1200 else 1):
        ends_in_a_line(command(allocation=number), whole)
