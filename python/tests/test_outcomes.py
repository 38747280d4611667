"""Outcomes of tests on the platform as pytest prints them: passed or failed by the test itself, else error, each with one line."""
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(folder, sample, *words, environment=None, plugin=True):
    """The outcome and the line of each test of a sample, and all output."""
    junit = folder / "junit.xml"
    command = [sys.executable, "-m", "pytest", *(["-p", "tidemark.plugin"] if plugin else []), "-p", "no:cacheprovider", "-q", "--rootdir", HERE,
               "--junitxml", junit, "--tb=short", *words, sample if os.path.isabs(sample) else HERE / "samples" / sample]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=900, env=environment, cwd=folder)
    outcomes = {}
    if junit.exists():
        for case in xml.parse(junit).iter("testcase"):
            found = [child for child in case if child.tag in ("failure", "error", "skipped")]
            outcomes[case.get("name")] = (found[0].tag if found else "passed", found[0].get("message") if found else "")
    return outcomes, done.stdout + done.stderr, done.returncode


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    found, output, code = run(tmp_path_factory.mktemp("outcomes"), "sample_outcomes.py")
    assert code == 1, output
    return found


@pytest.mark.parametrize("test, outcome, line", [
    ("test_ordinary", "passed", ""), ("test_passes[3]", "passed", ""), ("test_ordinary_again", "passed", ""), ("test_leaves_its_group_alive", "passed", ""),
    ("test_fails_on_rank_1", "failure", r"rank 1: AssertionError: FAIL memory/requested/forward/rise: rank 1"),
    ("test_killed", "error", r"rank 1 was ended by signal 9 \(Killed\)"), ("test_too_slow", "error", r"timed out after 12 s"),
    ("test_refused", "error", r"depends on values that are not known"),
    ("test_no_such_phase", "error", r"memory: no phase 'backward' has ended \(phases: none\)"),
    ("test_rank_does_not_fit", "error", r"exec: --as-rank 9 of 8: ranks are 0 to 7"), ("test_no_such_gpu", "error", r"exec: .*abacus"),
    ("test_no_ranks", "error", r"tidemark.ranks: 0 is not a whole number from 1 to 1024"), ("test_skipped", "skipped", "not here"),
])
def test_outcome(outcomes, test, outcome, line):
    assert outcomes[test][0] == outcome and re.search(line, outcomes[test][1] or ""), outcomes[test]


def test_pairs(tmp_path):
    outcomes, output, code = run(tmp_path, "sample_pairs.py", "--tidemark-report", tmp_path / "report")
    assert code == 1, output
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {
        "test_holds": "passed", "test_control_is_not_caught": "failure", "test_wrong_fixes": "failure", "test_other_shapes": "error",
        "test_returns_nothing": "error"}, output
    assert "FAIL caught/races/ innocent: rank 0" in output and "no verdict of races/ has failed; all verdicts hold" in output
    assert "FAIL rest/step leaks: rank 0" in output and "FAIL parity/bits other_values: rank 0" in output
    assert "the sides have different shapes: result is torch.float32 (4,) in the baseline and torch.float32 (3,) here" in output
    assert "the function returns nothing that could be compared" in output
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    trials = {trial["scenario"].split("::")[1]: trial for trial in report["trials"]}
    verdicts = {(one["variant"], one["name"]): one for one in trials["test_holds"]["verdicts"]}
    assert verdicts["fixed", "saving/requested/forward"]["measured"] == 4 * 256 * 1024
    assert [name for variant, name in verdicts if variant == "ends"] == ["control/failure/"], "of a control whether it was caught"
    assert all(one["error"] for one in trials["test_other_shapes"]["variants"]) and report["summary"]["exit_code"] == 3, report["summary"]
    tidemark = os.environ["TIDEMARK"]
    assert (tmp_path / "report" / "report.html").exists()
    said = subprocess.run([tidemark, "report", tmp_path / "report"], capture_output=True, text=True, check=True).stdout
    assert "2 variants ended in error, 4 of " in said, said
    assert "- again: `pytest samples/sample_pairs.py::test_wrong_fixes`" in (tmp_path / "report" / "summary.md").read_text()
    assert "the same run" in subprocess.run([tidemark, "compare", tmp_path / "report", tmp_path / "report"], capture_output=True, text=True, check=True).stdout


def test_a_control_without_a_verdict(tmp_path):
    (tmp_path / "test_it.py").write_text("import tidemark\n@tidemark.pair(baseline='a', fixed=['b'], controls={'c': 'magic'})\ndef test_it(variant, memory): pass\n")
    _, output, code = run(tmp_path, str(tmp_path / "test_it.py"))
    assert code == 2 and "the control c names no verdict: 'magic' is none of memory/, saving/" in output, output


def test_without_the_plugin(tmp_path):
    (tmp_path / "test_it.py").write_text("import tidemark\n@tidemark.ranks(2)\ndef test_it(): pass\n")
    outcomes, output, code = run(tmp_path, str(tmp_path / "test_it.py"), plugin=False)
    assert code == 1 and outcomes["test_it"][0] == "error" and "fixture 'tidemark_platform' not found" in output, output


def test_killed_pytest_leaves_nothing_running(tmp_path):
    test = tmp_path / "test_it.py"
    test.write_text("import os, pathlib, time, tidemark\n@tidemark.ranks(1)\ndef test_it(memory):\n"
                    f"    pathlib.Path({str(tmp_path)!r}, 'rank').write_text(str(os.getpid()))\n    time.sleep(1000)\n")
    with subprocess.Popen([sys.executable, "-m", "pytest", "-p", "tidemark.plugin", "-p", "no:cacheprovider", "-q", str(test)], cwd=tmp_path,
                          stdout=subprocess.DEVNULL) as running:
        wait_for(lambda: (tmp_path / "rank").exists() and (tmp_path / "rank").read_text())
        running.kill()
    rank = (tmp_path / "rank").read_text()
    wait_for(lambda: not Path("/proc", rank).exists())


def wait_for(holds, seconds=120):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.1)


def test_without_torch(tmp_path):
    """A folder with all that there is beside this torch, but without it."""
    (tmp_path / "test_it.py").write_text("import tidemark\n@tidemark.ranks(1)\ndef test_it(): pass\n")
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "tidemark"):
        folder = __import__(name).__path__[0]
        (packages / name).symlink_to(folder)
    (tmp_path / "run.py").write_text("import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n")
    base = sys._base_executable
    junit = tmp_path / "junit.xml"
    done = subprocess.run([base, "-s", tmp_path / "run.py", "-p", "tidemark.plugin", "-p", "no:cacheprovider", "--junitxml", junit, tmp_path / "test_it.py"],
                          capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "PYTHONPATH": str(packages)}, cwd=tmp_path)
    error = next(xml.parse(junit).iter("error"))
    assert "has no torch: install torch" in error.get("message"), done.stdout
