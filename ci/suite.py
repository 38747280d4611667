"""Test files of PyTorch, or of a library's source distribution, on the virtual platform, counted: ci/upstream --suite CHECKOUT. A file runs in one process of
pytest below `tidemark exec --mode math`, with ci/suite_plugin.py; a process that dies or hangs is started again with the tests that are left. The keep file has a JSON line for each file (its tests) and
for each test (its outcome), of one torch and one tidemark. ci/suite_reasons.py says which failures are expected."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path

import environments
from environments import TIDEMARK, facts, stop
from kept import Kept
from suite_process import START, Process, Tree
from suite_reasons import last_line, reason_of

FILES = ("test/distributed/**/test_*.py", "test/test_cuda.py", "test/test_nn.py", "test/test_optim.py", "test/test_torch.py", "test/test_ops.py")
PACKAGES = ["pytest", "expecttest", "hypothesis", "parameterized", "psutil", "packaging", "pyyaml", "setuptools<80", "scipy", "urllib3", "pulp", "huggingface_hub", "safetensors",
            'numpy<2.2; python_version < "3.13"']
FAILED = ("failed", "timed out")
MOST_AGAIN = 20  # tests of a file that run again: each costs the start of a process
HEAD = ("| file | tests | run | passed | failed | skipped | timed out | passed of those not skipped | extrapolated |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|")


class Keep(Kept):
    """The tests of each file, and the outcome of each test, of this torch and this tidemark."""

    def __init__(self, path, torch):
        self.tests, self.outcomes = {}, {}
        super().__init__(path, torch=torch)

    def take(self, entry):
        if "tests" in entry:
            self.tests[entry["file"]] = entry["tests"]
        else:
            self.outcomes[entry["test"]] = entry


@dataclass(frozen=True)
class Place:
    """What all processes of a run share."""
    checkout: Path
    python: Path
    limit: int  # seconds of a test
    scratch: Path
    of_pytorch: bool  # else of a library
    mode: str = "math"
    flags: tuple = ()  # of tidemark exec
    few: bool = False  # two devices for every file
    path: tuple = ("test",)  # folders of the checkout that its files import from

    def devices(self, file):
        return 2 if self.few or file.startswith("test/distributed/fsdp/") or file == "test/test_cuda.py" else 4

    def variables(self, file):
        """The environment that test/run_test.py of PyTorch gives a file that reads it."""
        if not re.search(r"environ\W+BACKEND\b", (self.checkout / file).read_text(encoding="utf-8")):
            return ()
        folder = self.scratch / "spawn"
        for name in ("barrier", "test_dir", "init_dir"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        return ("BACKEND", "nccl"), ("WORLD_SIZE", str(self.devices(file))), ("TEMP_DIR", str(folder))

    def is_program(self, file):
        """Whether the file starts its ranks itself, and has the rank -1 below pytest."""
        return re.search(r"\bMultiProcContin\w*Test\b", (self.checkout / file).read_text(encoding="utf-8")) is not None

    def started(self, file, words):
        path = filter(None, (str(self.scratch), *(str(self.checkout / each) for each in (*self.path, Path(file).parent)), os.environ.get("PYTHONPATH")))
        return Tree([TIDEMARK, "exec", "--mode", self.mode, *self.flags, "--devices", self.devices(file), "--timeout", self.limit, "--", self.python, *words], self.scratch, {
            "PATH": f"{Path(self.python).parent}:{os.environ['PATH']}", "PYTHONPATH": ":".join(path),
            "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
            "HF_HUB_OFFLINE": "1", "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(max(300, self.limit)),
            "TIDEMARK_SUITE_EVENTS": str(self.scratch / "events"), "TIDEMARK_SUITE_WANTED": str(self.scratch / "wanted"),
            **dict(self.variables(file))})


def outcomes(place, file, words, units):
    """Yields the end of every unit. `words(left)` is the command line for what is left."""
    left = list(units)
    while left:
        process, before = Process(), len(left)
        yield from process.events(place, file, words(left), left)
        if process.flight in left:
            left.remove(process.flight)
            yield {"unit": process.flight, "outcome": "timed out" if process.late else "failed", "why": process.ending}
        elif len(left) == before:  # another one would do the same
            yield from ({"unit": unit, "outcome": "failed", "why": f"{process.ending} before this test"} for unit in left)
            return


def pytest(place, *words):
    """The command line. Tests of a library import their neighbours as modules of a package, which has no __init__.py in a source distribution."""
    words = words if place.of_pytorch else ("--import-mode=importlib", *words)
    return ["-m", "pytest", "-p", "suite_plugin", "-q", "-c", os.devnull, "--rootdir", place.checkout, "-p", "no:cacheprovider", "-p", "no:warnings", "--noconftest",
            "--assert=plain", "--tb=short", "--continue-on-collection-errors", *words]


def collect(place, keep, files, *words):
    """The tests of every file, in the keep file; a file that cannot be imported has one test, which stands for that. `words`: more of pytest's."""
    batches = {}
    for file in files:
        if file not in keep.tests:
            alike = sum(Path(file).name == Path(other).name for other in files[:files.index(file)])  # a process has one module of a name
            batches.setdefault((place.devices(file), place.variables(file), alike), []).append(file)
    for batch in batches.values():
        print(f"collecting the tests of {len(batch)} files", file=sys.stderr, flush=True)
        for event in outcomes(place, batch[0], lambda left: pytest(place, "--collect-only", *words, *(place.checkout / file for file in left)), batch):
            file, what = event["unit"], event["outcome"]
            if what == "collected":
                keep.add(file=file, tests=event["tests"])
                continue
            keep.add(test=f"{file}::(import)", outcome=what, why=event["why"])
            keep.add(file=file, tests=[f"{file}::(import)"])


def drawn(tests, sample, seed):
    """The tests that run, by file: a sample of all, every test as likely as another, or all."""
    of_all = sorted(test for of_file in tests.values() for test in of_file)
    chosen = set(random.Random(seed).sample(of_all, min(sample, len(of_all))) if sample else of_all)
    return {file: chosen_tests for file, of_file in tests.items() if (chosen_tests := [test for test in of_file if test in chosen])}


def run_file(place, keep, file, chosen):
    left = [test for test in chosen if test not in keep.outcomes]
    if not left:
        return
    if place.is_program(file):
        events = program_outcomes(place, file, keep.tests[file])
    else:
        def words(of_left):
            (place.scratch / "wanted").write_text("\n".join(of_left), encoding="utf-8")
            return pytest(place, place.checkout / file)
        events = tried_again(place, file, words, outcomes(place, file, words, left))
    for event in events:
        keep.add(test=event["unit"], outcome=event["outcome"], why=event.get("why", ""), seconds=event.get("seconds", 0), again=event.get("again", False))


def tried_again(place, file, words, events):
    """The outcomes, where each test that has failed runs once more by itself in a new process, as test/run_test.py of PyTorch does it: a test before it in the
    process may have left something. If more than MOST_AGAIN have failed, none runs again."""
    failed = []
    for event in events:
        if event["outcome"] == "failed":
            failed.append(event)
        else:
            yield event
    for event in failed:
        again = next(outcomes(place, file, words, [event["unit"]])) if len(failed) <= MOST_AGAIN else event
        yield {**again, "again": True} if again["outcome"] == "passed" else event


def ended(place, file, *words):
    """(what a program has said, its exit code, whether it was silent for longer than the limit, how it has ended)."""
    with place.started(file, words) as tree:
        size, since, late = -1, time.monotonic(), False
        while tree.process.poll() is None and not late:
            time.sleep(0.2)
            if (now := tree.log.stat().st_size) != size:
                size, since = now, time.monotonic()
            late = time.monotonic() - since > (place.limit if size else START)
        return tree.log.read_text(encoding="utf-8", errors="replace"), tree.process.poll(), late, tree.ending()


def program_outcomes(place, file, tests):
    """The outcomes of a file that runs as a program. Each rank prints each test, and the lines of ranks mix: a test has failed where one rank says so."""
    text, code, late, ending = ended(place, file, place.checkout / file, "-v")
    name = r"(\w+) \(__(?:mp_)?main__\.(\w+)[.\w]*\)"
    failed = {f"{of}::{test}": why for test, of, why in re.findall(rf"(?ms)^(?:FAIL|ERROR): {name}[^\n]*\n(.*?)(?=^={{70}}|^Ran \d+ test|\Z)", text)}
    skipped = {f"{of}::{test}": why for test, of, why in re.findall(rf"{name}(?:\n[^\n]*?)? \.\.\. skipped ['\"]([^\n]*)['\"]", text)}
    begun = {f"{of}::{test}" for test, of in re.findall(name, text)}
    for unit in tests:
        test = unit.partition("::")[2]
        if test in failed:
            yield {"unit": unit, "outcome": "failed", "why": failed[test]}
        elif late or test not in begun or code != 0 and not failed:
            yield {"unit": unit, "outcome": "timed out" if late else "failed", "why": ending}
        elif test in skipped:
            yield {"unit": unit, "outcome": "skipped", "why": skipped[test]}
        else:
            yield {"unit": unit, "outcome": "passed"}


@dataclass
class Count:
    """The outcomes of one file, or of all."""
    tests: int = 0
    by_outcome: Counter = field(default_factory=Counter)
    extrapolated: float = 0  # tests of the file that pass, and those that do not skip, if the others of the file are as those that ran
    judged: float = 0

    def of(self, outcomes_of_file):
        self.by_outcome = Counter(entry["outcome"] for entry in outcomes_of_file)
        if run := sum(self.by_outcome.values()):
            self.extrapolated, self.judged = (number * self.tests / run for number in (self.by_outcome["passed"], run - self.by_outcome["skipped"]))
        return self

    def add(self, other):
        self.tests, self.by_outcome = self.tests + other.tests, self.by_outcome + other.by_outcome
        self.extrapolated, self.judged = self.extrapolated + other.extrapolated, self.judged + other.judged

    def row(self, name):
        run = sum(self.by_outcome.values())
        return (f"| {name} | {self.tests} | {run} | {' | '.join(str(self.by_outcome[each]) for each in ('passed', 'failed', 'skipped', 'timed out'))} | "
                f"{share(self.by_outcome['passed'], run - self.by_outcome['skipped'])} | {self.extrapolated:.0f} of {self.judged:.0f} |")


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else ""


def counted(place, keep, chosen, report):
    """Runs the files and prints a row for each. Returns the entries of tests that failed."""
    print(HEAD, flush=True)
    everything, failed = Count(), []
    for file, tests in chosen.items():
        run_file(place, keep, file, tests)
        entries = [keep.outcomes[test] for test in tests]
        count = Count(len(keep.tests[file])).of(entries)
        everything.add(count)
        print(count.row(file), flush=True)
        failed += [entry for entry in entries if entry["outcome"] in FAILED]
        report.add_tests(file, keep.key["torch"], place.devices(file), [verdict(entry) for entry in entries])
    print(everything.row("all of these files"))
    if again := [test for tests in chosen.values() for test in tests if keep.outcomes[test].get("again")]:
        print(f"\n{len(again)} passed by themselves in a new process and had failed behind other tests: {', '.join(again)}")
    return failed


def verdict(entry):
    """(test, status, why) of an entry, for the report; an expected failure is no verdict."""
    known = entry["outcome"] in FAILED and reason_of(entry)
    why = f"expected to fail: {known.cause}: {known.why}" if known else last_line(entry["why"]) if entry["outcome"] != "passed" else ""
    return entry["test"].partition("::")[2], "skip" if known else {"passed": "pass", "skipped": "skip"}.get(entry["outcome"], "fail"), why


def causes(failed):
    """Prints the failures by cause. Returns how many have no reason."""
    known, unknown = {}, []
    for entry in failed:
        if reason := reason_of(entry):
            known.setdefault(reason, []).append(entry["test"])
        else:
            unknown.append(f"| unknown | 1 | {entry['test']}: {last_line(entry['why']).replace('|', '/')} |")
    if failed:
        print("\n| cause | failed | reason |\n|---|---:|---|")
        print("\n".join([f"| {reason.cause} | {len(tests)} | expected to fail: {reason.why} (as {tests[0]}) |"
                         for reason, tests in sorted(known.items(), key=lambda each: -len(each[1]))] + unknown))
    return len(unknown)


def version_of(checkout):
    """The version of a source checkout of PyTorch, without what follows the three numbers. None: it is no such checkout."""
    named = checkout / "version.txt"
    match = re.match(r"\d+\.\d+\.\d+", named.read_text(encoding="utf-8").strip()) if named.is_file() else None
    return match[0] if match and (checkout / "test").is_dir() else None


def package_of(checkout):
    """(name, version) of the source distribution of a library. None: it is none."""
    information = checkout / "PKG-INFO"
    headers = HeaderParser().parsestr(information.read_text(encoding="utf-8")) if information.is_file() else {}
    return (headers["Name"], headers["Version"]) if headers.get("Name") and headers.get("Version") else None


def prepared(torch):
    """The Python of an environment with this torch, what the platform needs and what the tests import beside it."""
    def then(python, pip):
        environments.cuda_headers(python, pip)
        environments.run(*pip, *PACKAGES)
    return environments.environment(environments.wheels() / f"tests-{torch}", torch, then)


def python_for(checkout, python):
    """(the Python that runs the tests, what its results belong to, whether they are PyTorch's). Ends the command if checkout and Python do not fit."""
    if version := version_of(checkout):
        python = python or prepared(version)
        torch = facts(python)["torch"]
        if torch.split("+")[0] != version:
            stop(f"--suite {checkout}: its version.txt says {version}, and the torch that runs is {torch}", 2)
        return python, torch, True
    if not (package := package_of(checkout)):
        stop(f"--suite {checkout}: is no source checkout of PyTorch (version.txt and a folder test) and no source distribution of a library (PKG-INFO)", 2)
    if not python:
        stop(f"--suite {checkout}: --with PYTHON names the Python that has {package[0]} and what its tests import", 2)
    asked = subprocess.run([python, "-c", "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))", package[0]], capture_output=True, text=True,
                           check=False)
    if asked.stdout.strip() != package[1]:
        stop(f"--suite {checkout}: is {package[0]} {package[1]}, and {python} has {asked.stdout.strip() or 'none'}", 2)
    return python, f"{facts(python)['torch']}, {package[0]} {package[1]}", False


@contextmanager
def scratch():
    """A folder with the plugin, for the time of a run."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the tree of processes ends with this one
    with tempfile.TemporaryDirectory(prefix="tidemark-suite-", ignore_cleanup_errors=True) as folder:
        shutil.copy(Path(__file__).with_name("suite_plugin.py"), folder)
        yield Path(folder)


def test_files(checkout, of_pytorch):
    """A library's are those in folders `tests`, beside which programs of such names may lie; all of them if it has no such folder."""
    patterns = FILES if of_pytorch else ("**/tests/**/test_*.py",)
    paths = {file for pattern in patterns for file in checkout.glob(pattern)} or set(checkout.glob("**/test_*.py"))
    return sorted(str(file.relative_to(checkout)) for file in paths)


def main(chosen, report):
    checkout = chosen.suite.absolute()
    python, torch, of_pytorch = python_for(checkout, chosen.python)
    files = [file for file in test_files(checkout, of_pytorch) if chosen.files in file]
    if not files:
        stop(f"--suite {checkout}: has no test file" + (f" with '{chosen.files}' in its path" if chosen.files else ""), 2)
    with scratch() as folder:
        place = Place(checkout, python, chosen.limit, folder, of_pytorch)
        keep = Keep(chosen.keep, torch)
        collect(place, keep, files)
        failed = counted(place, keep, drawn({file: keep.tests[file] for file in files}, chosen.sample, chosen.seed), report)
    unknown = causes(failed)
    report.finish()
    print(f"\n{len(failed)} failed, {unknown} of them without a known reason" if failed else "\nnone failed")
    return 1 if unknown else 0
