"""PyTorch's own memory tests, and those of libraries, on the virtual platform, counted: ci/upstream --tests CHECKOUT... The files are taken from where the user has
them, as they are; each runs under `tidemark exec` with two devices. A test that fails and is not in EXPECTED fails the command."""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import environments
from environments import TIDEMARK, environment, wheels

TORCH = "2.11.0"
PACKAGES = ["pytest", "expecttest", "hypothesis", "parameterized", "psutil", "packaging", "pyyaml", "setuptools<80", "scipy", "urllib3", "pulp", "huggingface_hub", "safetensors",
            'numpy<2.2; python_version < "3.13"']
LIMIT = 1800  # seconds of a file


@dataclass(frozen=True)
class Tests:
    file: str  # in one of the checkouts
    mode: str = "math"
    only: str = ""  # pytest's -k
    alloc_conf: str = ""  # of PyTorch's allocator
    script: bool = False  # no test functions: a program of two ranks, which passes or fails
    path: tuple = (".",)  # folders of the checkout that it imports from

    def name(self):
        return self.file + (f", {self.alloc_conf}" if self.alloc_conf else "")


# Without the tests that capture CUDA graphs: those of make_graphed_callables compute for minutes on a core, and one that fails leaves its memory to the others.
MEMORY = ("(memory or stream or alloc or event or MemPool or snapshot or oom or segment or caching) and not graph and not Graph and not BlockStateAbsorption")
TESTS = (
    Tests("test/distributed/_composable/fsdp/test_fully_shard_memory.py"),
    Tests("test/distributed/_tools/test_mem_tracker.py", mode="known"),
    Tests("test/distributed/_tools/test_fsdp2_mem_tracker.py", mode="known"),
    Tests("test/test_cuda.py", only=MEMORY, path=(".", "test")),
    Tests("test/test_cuda.py", only=MEMORY, path=(".", "test"), alloc_conf="expandable_segments:True"),  # as test_cuda_expandable_segments.py does
    Tests("tests/nn/data_parallel/test_fsdp_memory.py"),
    Tests("torchtitan/experiments/graph_trainer/tests/test_sac_peak_memory.py", mode="known"),  # math refuses Triton's kernels
    *(Tests(f"src/accelerate/test_utils/scripts/{name}.py", script=True, path=("src",))
      for name in ("test_script", "test_ops", "test_sync", "test_ddp_comm_hook", "test_distributed_data_loop", "external_deps/test_peak_memory_usage")))

# What cannot pass here: "file::test", or a whole file, -> the reason.
LEFT = "fails where test_memory_snapshot, which leaves its tensors, has failed before; passes alone"
EXPECTED = {
    "test/test_cuda.py::test_memory_snapshot": "downloads a program that draws flame graphs",
    **{f"test/test_cuda.py::{name}": LEFT for name in ("test_memory_plots_free_segment_stack", "test_memory_snapshot_script", "test_memory_snapshot_with_cpp")},
    "test/test_cuda.py::test_mempool_with_allocator": "compiles an extension, which wants CUDA's toolkit",
    "torchtitan/experiments/graph_trainer/tests/test_sac_peak_memory.py": "imports modules that PyTorch has since 2.12 alone; with 2.14.1 it captures its "
    "traced step as a CUDA graph, which has not been tried since the platform has graphs",
    "src/accelerate/test_utils/scripts/external_deps/test_peak_memory_usage.py": "downloads a model and a data set",
}


@dataclass
class Count:
    passed: int = 0
    failed: dict = field(default_factory=dict)  # test -> what it said
    skipped: dict = field(default_factory=dict)  # reason -> number


def prepared(torch):
    """The Python of an environment with this torch, what the platform needs and what the tests import beside it."""
    def then(python, pip):
        environments.cuda_headers(python, pip)
        environments.run(*pip, *PACKAGES)
    return environment(wheels() / f"tests-{torch}", torch, then)


def reason_of(text):
    """The error of a test: pytest's first line of an exception, else the last line that names an error."""
    if of_pytest := [line for line in text.splitlines() if line.startswith("E  ")]:
        return of_pytest[0][1:].strip()[:300]
    lines = [line for line in text.splitlines() if re.search(r"(Error|Exception)\b|error:", line) and "ChildFailedError" not in line]
    return (lines or text.strip().splitlines() or ["nothing was said"])[-1].strip()[:300]


def run(tests, checkout, python):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "junit.xml")
        program = ["-m", "torch.distributed.run", "--nproc-per-node", 2, checkout / tests.file] if tests.script else [
            "-m", "pytest", checkout / tests.file, "-q", "-c", os.devnull, "--rootdir", checkout, "-p", "no:cacheprovider", "--noconftest", f"--junitxml={report}",
            *(["-k", tests.only] if tests.only else [])]
        command = [TIDEMARK, "exec", "--mode", tests.mode, "--devices", 2, *(["--alloc-conf", tests.alloc_conf] if tests.alloc_conf else []), "--", python, *program]
        path = [str(checkout / each) for each in tests.path] + [os.environ.get("PYTHONPATH", "")]
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": ":".join(filter(None, path)), "OMP_NUM_THREADS": "1"})
        except subprocess.TimeoutExpired:
            return Count(failed={tests.file: f"did not end within {LIMIT} s"})
        if tests.script:
            return Count(passed=1) if done.returncode == 0 else Count(failed={tests.file: reason_of(done.stdout + done.stderr)})
        if not report.exists():
            return Count(failed={tests.file: f"ended with {done.returncode} before a test: {reason_of(done.stdout + done.stderr)}"})
        return counted(tests, ElementTree.parse(report).iter("testcase"))


def counted(tests, found):
    count = Count()
    for case in found:
        outcome = {child.tag: child for child in case}
        if (bad := outcome.get("failure", outcome.get("error"))) is not None:
            count.failed[f"{tests.file}::{case.get('name')}"] = reason_of(bad.text or bad.get("message") or "")
        elif "skipped" in outcome:
            reason = outcome["skipped"].get("message") or "no reason"
            count.skipped[reason] = count.skipped.get(reason, 0) + 1
        else:
            count.passed += 1
    return count


def main(checkouts, python=None):
    python = python or prepared(TORCH)
    print("| file | passed | failed | expected to fail | skipped |\n|---|---:|---:|---:|---:|", flush=True)
    wrong, expected, skipped = [], [], []
    found_any = False
    for tests in TESTS:
        checkout = next((each for each in checkouts if (each / tests.file).is_file()), None)
        if not checkout:
            print(f"| {tests.name()} | not found | | | |", flush=True)
            continue
        found_any = True
        count = run(tests, checkout.absolute(), python)
        known = {test for test in count.failed if test in EXPECTED or tests.file in EXPECTED}
        print(f"| {tests.name()} | {count.passed} | {len(count.failed) - len(known)} | {len(known)} | {sum(count.skipped.values())} |", flush=True)
        wrong += [f"FAILED {test}: {said}" for test, said in count.failed.items() if test not in known]
        expected += [f"* {test}: {EXPECTED.get(test) or EXPECTED[tests.file]}" for test in sorted(known)]
        skipped += [f"* {number} of {tests.file}: {reason}" for reason, number in count.skipped.items()]
    for title, lines in (("Expected to fail:", expected), ("Skipped, by their own words:", skipped), ("", wrong)):
        if lines:
            print("\n" + "\n".join(filter(None, (title, "" if title else None, *lines))))
    if not found_any:
        print(f"upstream: no test file is in {', '.join(map(str, checkouts))}", file=sys.stderr)
        return 2
    return 1 if wrong else 0
