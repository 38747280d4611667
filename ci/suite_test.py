"""The tests of PyTorch, and of a library, counted (ci/upstream --suite), on a checkout of a few small files."""
import importlib.metadata
import json
import sys
import time
from pathlib import Path

import pytest
from environments import facts

TORCH = facts(sys.executable)["torch"].split("+")[0]
HEAD = """import os, signal, subprocess, time, urllib.error
import pytest

def ran(name):
    with open(os.environ["RAN"], "a") as file:
        file.write(name + "\\n")
"""
SMALL = HEAD + """
def test_right(): ran("right")
def test_wrong():
    ran("wrong")
    raise ValueError("off by one")
def test_skipped(): pytest.skip("not today")
@pytest.mark.xfail
def test_expected(): raise ValueError
def test_download(): raise urllib.error.URLError("no network")
def test_killed():
    ran("killed")
    os.kill(os.getpid(), signal.SIGKILL)
def test_hangs():
    ran("hangs")
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(os.environ["RAN"] + ".child", "w") as file:
        file.write(str(child.pid))
    time.sleep(1000)
def test_leaves(): globals()["left"] = True
def test_behind():
    ran("behind")
    assert "left" not in globals()
def test_last(): ran("last")
"""
RANKS = """import multiprocessing, sys, unittest
class MultiProcContinousTest(unittest.TestCase):
    def test_program(self):
        "Its rank is a process of this program."
        self.assertEqual(type(self).__module__, "__mp_main__")
    def test_wrong_rank(self):
        if rank == 1:
            raise ValueError("rank 1 differs")
    @unittest.skip("too few ranks")
    def test_left_out(self):
        "A line that stands between the name and the outcome."
def run(of):
    global rank
    rank = of
    unittest.main(argv=["ranks", "-v"])
if __name__ == "__main__":
    ranks = [multiprocessing.get_context("spawn").Process(target=run, args=(of,)) for of in range(2)]
    [each.start() for each in ranks]
    sys.exit(max([each.join() or each.exitcode for each in ranks]))
"""
FILES = {
    "test/distributed/test_small.py": SMALL,
    "test/distributed/deeper/test_small.py": HEAD + "def test_deep(): ran('deep')\n",
    "test/distributed/test_broken.py": "import nothing_of_this_name\n",
    "test/distributed/test_leaves.py": "import sys\nprint('there is no such backend')\nsys.exit(0)\n",
    "test/distributed/test_ranks.py": RANKS,
    "test/test_optim.py": HEAD + "@pytest.mark.parametrize('number', range(40))\ndef test_many(number): ran('many')\n",
    "test/test_other.py": "def test_not_named(): pass\n",
}


@pytest.fixture
def checkout(tmp_path):
    checkout = tmp_path / "pytorch"
    for name, text in FILES.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    (checkout / "version.txt").write_text(TORCH + "a0\n")
    return checkout


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def suite(tmp_path, upstream, checkout, monkeypatch):
    """Counts tests of the checkout: the exit code, the output, and the tests that ran."""
    ran = tmp_path / "ran"
    monkeypatch.setenv("RAN", str(ran))

    def suite(*words):
        ran.write_text("")
        code, output = upstream("--suite", checkout, "--with", sys.executable, *words)
        return code, output, ran.read_text().split()

    return suite


def test_all(tmp_path, suite):
    keep, report = tmp_path / "keep" / "rows", tmp_path / "report"
    began = time.monotonic()
    code, output, order = suite("--keep", keep, "--limit", "5", "--report", report)
    assert code == 1 and time.monotonic() - began < 100, f"it ends with 1: {code}: {output}"
    for row in ("| test/distributed/test_small.py | 10 | 10 | 5 | 3 | 1 | 1 | 56 % | 5 of 9 |", "| test/distributed/deeper/test_small.py | 1 | 1 | 1 | 0 | 0 | 0 | 100 % | 1 of 1 |",
                "| test/distributed/test_broken.py | 1 | 1 | 0 | 1 | 0 | 0 | 0 % | 0 of 1 |", "| test/distributed/test_leaves.py | 1 | 1 | 0 | 0 | 1 | 0 |  | 0 of 0 |",
                "| test/distributed/test_ranks.py | 3 | 3 | 1 | 1 | 1 | 0 | 50 % | 1 of 2 |", "| test/test_optim.py | 40 | 40 | 40 | 0 | 0 | 0 | 100 % | 40 of 40 |",
                "| all of these files | 56 | 56 | 47 | 5 | 3 | 1 | 89 % | 47 of 53 |"):
        assert row in output, f"counts: {row}: {output}"
    assert "| downloads | 1 | expected to fail: " in output, f"a cause with its reason: {output}"
    for words in ("test_small.py::test_wrong: ValueError: off by one", "test_killed: Error: the process was ended by SIGKILL", "test_hangs: Error: the process did not end within 5 s",
                  "nothing_of_this_name", "test_wrong_rank: ValueError: rank 1 differs", "6 failed, 5 of them without a known reason"):
        assert words in output, f"without a reason: {words}: {output}"
    assert order.count("hangs") == order.count("last") == 1, f"each test runs once, also behind one that dies: {order}"
    assert order.count("wrong") == order.count("killed") == order.count("behind") == 2, f"and once more by itself where it has failed: {order}"
    assert "1 passed by themselves in a new process and had failed behind other tests: test/distributed/test_small.py::test_behind" in output, f"says which passed by themselves: {output}"
    assert not lives((tmp_path / "ran.child").read_text()), "a process that a killed test has started ends too"
    lines = map(json.loads, (report / "tests.jsonl").read_text().splitlines())  # of which the stand-in makes no report
    verdicts = {(line["trial"]["scenario"], verdict["name"]): verdict for line in lines if "trial" in line for verdict in line["trial"]["verdicts"]}
    small = "test/distributed/test_small.py"
    assert len(verdicts) == 56 and [verdicts[small, f"run/test_{name}"]["status"] for name in ("right", "wrong", "skipped", "download")] == ["pass", "fail", "skip", "skip"], f"a verdict for each test: {verdicts}"

    code, again, order = suite("--keep", keep, "--limit", "5")
    assert code == 1 and not order and again.split("\n| cause")[0].endswith(output.split("\n| cause")[0].partition("| file |")[2]), f"nothing runs twice: {again}"
    lines = keep.read_text().splitlines()
    index = next(number for number, line in enumerate(lines) if line.startswith('{"test": ') and "::test_wrong\"" in line)
    keep.write_text("\n".join([*lines[:index], *lines[index + 1:], lines[index][:40]]))  # a run that was ended within the line
    code, again, order = suite("--keep", keep, "--limit", "5")
    assert code == 1 and order == ["wrong", "wrong"] and "| 56 | 56 | 47 | 5 | 3 | 1 |" in again, f"it goes on with what is left: {order}: {again}"
    assert len(keep.read_text().splitlines()) == len(lines) + 1, "the half line stays by itself"


def test_sample(tmp_path, suite):
    code, output, order = suite("--files", "test_optim", "--sample", "10", "--seed", "3", "--keep", tmp_path / "sample")
    assert code == 0 and "| test/test_optim.py | 40 | 10 | 10 | 0 | 0 | 0 | 100 % | 40 of 40 |" in output and order == ["many"] * 10 and "none failed" in output, f"a sample: {code}: {output}"
    code, output, order = suite("--files", "test_optim", "--sample", "10", "--seed", "3", "--keep", tmp_path / "sample")
    assert code == 0 and not order, f"a seed draws the same tests: {output}"
    stand_in = tmp_path / "tidemark"
    stand_in.write_text(stand_in.read_text() + "# another build\n")
    code, output, order = suite("--files", "test_optim", "--sample", "10", "--seed", "3", "--keep", tmp_path / "sample")
    assert code == 0 and len(order) == 10, f"another tidemark begins anew: {output}"
    code, output, _ = suite("--files", "deeper", "--limit", "60")
    assert code == 0, f"without a keep file: {code}: {output}"


def test_refusals(tmp_path, upstream, checkout):
    for words, says in (((tmp_path,), "and no source distribution of a library (PKG-INFO)"), ((checkout, "--files", "nowhere"), "has no test file with 'nowhere' in its path"), ((checkout, "--sample", "0"), "is at least 1")):
        code, output = upstream("--suite", *words, "--with", sys.executable)
        assert code == 2 and says in output, f"refused: {says}: {code}: {output}"
    (checkout / "version.txt").write_text("1.2.3\n")
    code, output = upstream("--suite", checkout, "--with", sys.executable)
    assert code == 2 and output.count("\n") == 1 and f"its version.txt says 1.2.3, and the torch that runs is {TORCH}" in output, f"another version: {code}: {output}"


def test_library(tmp_path, upstream):
    library = tmp_path / "library"
    for name, text in (("tests/test_small.py", "from .neighbour import value\n\ndef test_value(): assert value == 3\n"), ("tests/neighbour.py", "value = 3\n")):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(text)

    def suite(version, *words):
        (library / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: pytest\nVersion: {version}\n")
        return upstream("--suite", library, *words)

    installed = importlib.metadata.version("pytest")
    code, output = suite(installed, "--with", sys.executable)
    assert code == 0 and "| tests/test_small.py | 1 | 1 | 1 | 0 | 0 | 0 | 100 % | 1 of 1 |" in output, f"the tests of a source distribution: {code}: {output}"
    for version, words, says in (("0.1", ("--with", sys.executable), f"is pytest 0.1, and {sys.executable} has {installed}"), (installed, (), "--with PYTHON names the Python that has pytest")):
        code, output = suite(version, *words)
        assert code == 2 and output.count("\n") == 1 and says in output, f"refused: {says}: {code}: {output}"
