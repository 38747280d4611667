"""Outcomes of tests on the platform as pytest prints them: passed or failed by the test itself, else error, each with one line."""
import json
import os
import random
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE.parents[1] / "reports"), str(HERE.parents[1] / "harness/exec/testing")]
import exec_server  # noqa: E402
import valid  # noqa: E402


def run(folder, sample, *words, environment=None, plugin=True):
    """The outcome and the line of each test of a sample, and all output."""
    junit = folder / "junit.xml"
    command = [sys.executable, "-m", "pytest", *(["-p", "tidemark.plugin"] if plugin else []), "--disable-plugin-autoload", "-p", "no:cacheprovider", "-q", "--rootdir", HERE,
               "--junitxml", junit, "--tb=short", *words, sample if os.path.isabs(sample) else HERE / "samples" / sample]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=900,
                          env=exec_server.served(os.environ if environment is None else environment), cwd=folder)
    outcomes = {}
    if junit.exists():
        for case in xml.parse(junit).iter("testcase"):
            failures = [child for child in case if child.tag in ("failure", "error", "skipped")]
            outcomes.setdefault(case.get("name"), (failures[0].tag if failures else "passed", failures[0].get("message") if failures else ""))
    return outcomes, done.stdout + done.stderr, done.returncode


def whole_report(folder):
    """The record with every value in its place; it is valid, and so is the file."""
    document = valid.expanded(os.environ["TIDEMARK"], folder)
    for one in (document, json.loads(Path(folder, "report.json").read_bytes())):
        wrong = valid.objections(os.environ["TIDEMARK"], one)
        assert not wrong, f"{folder}: {wrong[:3]}"
    return document


@pytest.fixture(scope="module")
def outcomes_and_output(tmp_path_factory):
    by_test, output, code = run(tmp_path_factory.mktemp("outcomes"), "sample_outcomes.py", HERE / "samples" / "sample_failures.py", "--tb=long")
    assert code == 1, output
    return by_test, output


@pytest.fixture(scope="module")
def outcomes(outcomes_and_output):
    return outcomes_and_output[0]


def sections(output):
    """What pytest prints of each failed test of sample_failures.py, without the line of `tidemark exec` at its end, which has a heading."""
    output = re.sub(r"(?m)^-{3,} tidemark exec -{3,}\n(?:tidemark: .*\n)+", "", output)
    found = re.findall(r"(?ms)^_{3,} (?:ERROR at \w+ of )?(test_\S+) _{3,}\n(.*?)(?=^_{3,} |^={3,} |^rank 0: )", output)
    return {name: text for name, text in found if "sample_failures.py" in text}


# holds: python/README.md, Where a test runs
def test_a_failure_looks_as_without_tidemark(outcomes_and_output, tmp_path):
    """The whole text of each failure is that of pytest alone: nothing of tidemark's stands before or in it."""
    _, alone, code = run(tmp_path, "sample_failures.py", "--tb=long", plugin=False)
    assert code == 1, alone
    expected, seen = sections(alone), sections(outcomes_and_output[1])
    assert len(expected) >= 10 and seen == expected, outcomes_and_output[1]
    for own in ("tidemark_server", "tidemark/server.py", "raise Copy", "tidemark/child.py"):
        assert own not in outcomes_and_output[1], outcomes_and_output[1]


@pytest.mark.parametrize("test, outcome, line", [
    ("test_ordinary", "passed", ""), ("test_passes[3]", "passed", ""), ("test_ordinary_again", "passed", ""), ("test_leaves_its_group_alive", "passed", ""),
    ("test_fails_on_rank_1", "failure", r"rank 1: AssertionError: FAIL memory/requested/forward/rise: rank 1"),
    ("test_killed", "error", r"rank 1 was ended by signal 9 \(Killed\)"), ("test_too_slow", "error", r"timed out after 12 s"),
    ("test_refused", "error", r"depends on values that are not known"), ("test_refused_numbers", "error", r"has no numbers with return_debug_mask"),
    ("test_words_of_a_refusal", "failure", r"RuntimeError: the size depends on"),
    ("test_no_such_phase", "error", r"memory: no phase 'backward' has ended \(phases: none\)"),
    ("test_rank_does_not_fit", "error", r"tidemark.as_rank: 9 is not a rank of 8: ranks are 0 to 7"), ("test_no_such_gpu", "error", r"exec: .*abacus"),
    ("test_no_ranks", "error", r"tidemark.ranks: 0 is not a whole number from 1 to 1024"), ("test_skipped", "skipped", "not here"),
])
# holds: python/README.md, Where a test runs
# holds: harness/fit/README.md, Torch is imported once
def test_outcome(outcomes, test, outcome, line):
    assert outcomes[test][0] == outcome and re.search(line, outcomes[test][1] or ""), outcomes[test]


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    by_test, output, code = run(folder, "sample_mistakes.py", "--tidemark-report", folder / "report")
    assert code == 1, output
    assert (folder / "report" / "report.html").exists(), output  # also with a mode that there is not
    return by_test


@pytest.mark.parametrize("test, outcome, line", [
    ("test_ranks_in_a_list", "error", r"tidemark.as_rank: \[0, 1\] is not a rank of 3: ranks are 0 to 2"),
    ("test_rank_twice", "error", r"tidemark.as_rank: names rank 1 twice"), ("test_no_rank", "error", r"tidemark.as_rank: needs at least one rank"),
    ("test_no_such_mode", "error", r"nonsense not in"), ("test_bytes_that_are_none", "error", r"memory.value: half is 1.5, and no whole number of bytes"),
    ("test_huge_power", "error", r"has a number of more than 127 bits"), ("test_partner_leaves", "error", r"rank 1: the process ended before the test had"),
    ("test_ends_pytest", "error", r"the test has ended pytest: Exit: enough"), ("test_fails_in_a_fork", "failure", r"in the copy"),
])
# night: one more pytest of mistakes; test_outcome has some of each kind by day
def test_mistake(mistakes, test, outcome, line):
    assert mistakes[test][0] == outcome and re.search(line, mistakes[test][1] or ""), mistakes[test]


# holds: python/README.md, Pairs
def test_pairs(tmp_path):
    outcomes, output, code = run(tmp_path, "sample_pairs.py", "--tidemark-report", tmp_path / "report")
    assert code == 1, output
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {
        "test_holds": "passed", "test_control_is_not_caught": "failure", "test_wrong_fixes": "failure", "test_other_shapes": "error",
        "test_returns_nothing": "error", "test_same_names": "error", "test_sparse": "error", "test_expected_to_fail": "skipped", "test_skipped": "skipped",
        "test_without_partners": "error"}, output
    assert "two results are named result.x.y" in output and "result must be a dense tensor; it has the layout torch.sparse_coo" in output
    assert outcomes["test_expected_to_fail"][1] == "known" and "not here" in outcomes["test_skipped"][1], outcomes
    assert "a rank without partners has no numbers to compare" in output
    assert "FAIL caught/races/ innocent: rank 0" in output and "no verdict of races/ has failed; all verdicts hold" in output
    assert "FAIL rest/step leaks: rank 0" in output and "FAIL parity/bits other_values: rank 0" in output
    assert "the sides have different shapes: result is torch.float32 (4,) in the baseline and torch.float32 (3,) here" in output
    assert "the function returns nothing that could be compared" in output
    report = whole_report(tmp_path / "report")
    trials = {trial["scenario"].split("::")[1]: trial for trial in report["trials"]}
    verdicts = {(one["variant"], one["name"]): one for one in trials["test_holds"]["verdicts"]}
    assert verdicts["fixed", "saving/requested/forward"]["measured"] == 4 * 256 * 1024
    assert [name for variant, name in verdicts if variant == "ends"] == ["control/failure/"], "of a control whether it was caught"
    assert all(one["error"] for one in trials["test_other_shapes"]["variants"]) and report["summary"]["exit_code"] == 3, report["summary"]
    assert "ended" not in report["run"] and report["run"]["device"]["profile"] == "h100-80g", report["run"]
    tidemark = os.environ["TIDEMARK"]
    assert (tmp_path / "report" / "report.html").exists()
    text = subprocess.run([tidemark, "report", tmp_path / "report"], capture_output=True, text=True, check=True).stdout
    assert "5 variants ended in error, 4 of " in text, text
    assert "- again: `pytest samples/sample_pairs.py::test_wrong_fixes`" in (tmp_path / "report" / "summary.md").read_text()
    assert "the same run" in subprocess.run([tidemark, "compare", tmp_path / "report", tmp_path / "report"], capture_output=True, text=True, check=True).stdout


# night: waits for a pytest that is killed
def test_a_killed_pytest_leaves_what_it_had(tmp_path):
    """`tidemark report` writes it, but not while pytest lives."""
    (tmp_path / "test_it.py").write_text("def test_first(memory): memory.no_such\ndef test_second(memory): pass\ndef test_third(memory): pass\n")
    (tmp_path / "conftest.py").write_text(
        "import os, subprocess\n"
        "def pytest_runtest_logstart(nodeid):\n"
        "    if 'third' in nodeid:\n"
        "        done = subprocess.run([os.environ['TIDEMARK'], 'report', 'report'], capture_output=True, text=True)\n"
        "        open('while.txt', 'w').write(f'{done.returncode} {done.stderr}')\n"
        "        os.kill(os.getpid(), 9)\n")
    _, output, code = run(tmp_path, str(tmp_path / "test_it.py"), "--confcutdir", tmp_path, "--tidemark-report", "report")
    assert code == -9 and os.listdir(tmp_path / "report") == ["tests.jsonl"], output
    assert re.fullmatch(r"2 error: report: this pytest is still running: .*\n", (tmp_path / "while.txt").read_text())
    with open(tmp_path / "report" / "tests.jsonl", "a", encoding="utf-8") as file:
        file.write('{"trial": {"scena')  # of a write that was cut off
    text = subprocess.run([os.environ["TIDEMARK"], "report", tmp_path / "report"], capture_output=True, text=True, check=True).stdout
    assert "Incomplete: 2 of 2 trials finished" in text and "pytest ended before its last test" in text, text
    report = whole_report(tmp_path / "report")
    assert [one["status"] for trial in report["trials"] for one in trial["verdicts"]] == ["fail", "pass"] and report["run"]["torch"], report
    assert not (tmp_path / "report" / "tests.jsonl").exists()


def test_a_control_without_a_verdict(tmp_path):
    (tmp_path / "test_it.py").write_text("import tidemark\n@tidemark.pair(baseline='a', fixed=['b'], controls={'c': 'magic'})\ndef test_it(variant, memory): pass\n")
    _, output, code = run(tmp_path, str(tmp_path / "test_it.py"))
    assert code == 2 and "the control c names no verdict: 'magic' is none of memory/, saving/" in output, output


# night: one more pytest without the plugin
def test_without_the_plugin(tmp_path):
    (tmp_path / "test_it.py").write_text("import tidemark\n@tidemark.ranks(2)\ndef test_it(): pass\n")
    outcomes, output, code = run(tmp_path, str(tmp_path / "test_it.py"), plugin=False)
    assert code == 1 and outcomes["test_it"][0] == "error" and "fixture 'tidemark_platform' not found" in output, output


# night: one more pytest for another plugin
def test_plugins_that_ask_for_xdist(tmp_path):
    """A plugin that breaks in a rank's pytest is named; marks of plugins that a rank's pytest does without are known there."""
    (tmp_path / "test_it.py").write_text("import pytest, tidemark\n@pytest.mark.flaky\n@tidemark.ranks(1)\ndef test_it(): pass\n")
    (tmp_path / "rerun.py").write_text("def pytest_configure(config):\n    config.addinivalue_line('markers', 'flaky: runs again')\n"
                                       "    getattr(config, 'workerinput', {'sock_port': 0})['sock_port']\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}
    outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"), "-p", "rerun", "--strict-markers", environment=environment)
    assert outcomes["test_it"][0] == "error" and "pytest itself failed in the rank: KeyError: 'sock_port'" in outcomes["test_it"][1], output
    (tmp_path / "rerun.py").write_text("def pytest_configure(config):\n    if not hasattr(config, 'workerinput'):\n"
                                       "        config.addinivalue_line('markers', 'flaky: runs again')\n")
    outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"), "-p", "rerun", "--strict-markers", environment=environment)
    assert outcomes["test_it"][0] == "passed", output


# night: one more pytest for a torch without libraries
def test_torch_without_nvidias_libraries(tmp_path):
    """A module of tests may import torch at its head where NVIDIA's libraries are not installed: ordinary tests then see no GPU, and ranks one."""
    (tmp_path / "test_it.py").write_text("import os\nimport torch\ndef test_ordinary():\n    assert not torch.cuda.is_available() and torch.ones(3).sum() == 3\n"
                                         "    assert 'TIDEMARK_DEVICES' not in os.environ\ndef test_rank(memory):\n    kept = torch.ones(3, device='cuda')\n"
                                         "    memory.now().requested.equals('12')\n    del kept\n")
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"), environment=environment)
    assert outcomes == {"test_ordinary": ("passed", ""), "test_rank": ("passed", "")}, output


@pytest.mark.parametrize("seconds", [3, random.uniform(0.02, 0.3)])
# night: waits for the limits of another plugin
def test_another_plugins_timeout(tmp_path, seconds):
    """pytest-timeout interrupts the wait for the ranks, or what is prepared before: that is this test's error, and the session goes on."""
    (tmp_path / "test_it.py").write_text("import time\ndef test_it(memory):\n    time.sleep(1000)\ndef test_after():\n    pass\n")
    (tmp_path / "alarm.py").write_text("import signal, pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_protocol(item):\n"
                                       "    signal.signal(signal.SIGALRM, lambda *_: pytest.fail('Timeout (>3.0s)'))\n"
                                       f"    signal.setitimer(signal.ITIMER_REAL, {seconds})\n"
                                       "    try:\n        return (yield)\n    finally:\n        signal.setitimer(signal.ITIMER_REAL, 0)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}
    outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"), "-p", "alarm", environment=environment)
    assert outcomes["test_it"][0] == "error" and "Timeout (>3.0s)" in outcomes["test_it"][1] and outcomes["test_after"][0] == "passed", output


# night: one more pytest as in a job of Slurm
def test_in_a_job_with_gpus(tmp_path):
    """What the job of this pytest has of GPUs and ranks is not that of a test."""
    (tmp_path / "test_it.py").write_text("import os, torch\ndef test_it(memory):\n    assert memory.ranks == 1 and torch.cuda.device_count() == 1\n")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3"}
    outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"), environment=environment)
    assert outcomes["test_it"][0] == "passed", output


# night: waits for a pytest that is killed
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
    beside = Path(pytest.__file__).parents[1]
    for name in ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"):
        for path in (beside / name, beside / f"{name}.py", *beside.glob(f"{name}-*.dist-info")):  # pytest asks for pluggy's version
            if path.exists():
                (packages / path.name).symlink_to(path)
    (packages / "tidemark").symlink_to(__import__("tidemark").__path__[0])
    (tmp_path / "run.py").write_text("import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n")
    base = sys._base_executable
    junit = tmp_path / "junit.xml"
    done = subprocess.run([base, "-s", tmp_path / "run.py", "-p", "tidemark.plugin", "-p", "no:cacheprovider", "--junitxml", junit, tmp_path / "test_it.py"],
                          capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "PYTHONPATH": str(packages)}, cwd=tmp_path)
    error = next(xml.parse(junit).iter("error"))
    assert "has no torch: " in error.get("message") and "install torch 2." in error.get("message"), done.stdout
