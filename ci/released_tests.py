"""PyTorch's own memory tests, and those of libraries, on the virtual platform, counted: ci/upstream --tests CHECKOUT... The files are taken from where the user has
them, as they are; each runs as those of ci/suite.py do, with two devices. A test that fails without a reason in ci/suite_reasons.py fails the command."""
import sys
from collections import Counter
from dataclasses import dataclass

import suite
from suite_reasons import last_line, reason_of

TORCH = "2.11.0"
LIMIT = 1800  # seconds of a test


@dataclass(frozen=True)
class Tests:
    file: str  # in one of the checkouts
    mode: str = "math"
    only: str = ""  # pytest's -k
    alloc_conf: str = ""  # of PyTorch's allocator
    script: bool = False  # no test functions: a program of two ranks, which passes or fails

    def name(self):
        return self.file + (f", {self.alloc_conf}" if self.alloc_conf else "")


# Without the tests that capture CUDA graphs: those of make_graphed_callables compute for minutes on a core, and one that fails leaves its memory to the others.
MEMORY = ("(memory or stream or alloc or event or MemPool or snapshot or oom or segment or caching) and not graph and not Graph and not BlockStateAbsorption")
TESTS = (
    Tests("test/distributed/_composable/fsdp/test_fully_shard_memory.py"),
    Tests("test/distributed/_tools/test_mem_tracker.py", mode="known"),
    Tests("test/distributed/_tools/test_fsdp2_mem_tracker.py", mode="known"),
    Tests("test/test_cuda.py", only=MEMORY),
    Tests("test/test_cuda.py", only=MEMORY, alloc_conf="expandable_segments:True"),  # as test_cuda_expandable_segments.py does
    Tests("tests/nn/data_parallel/test_fsdp_memory.py"),
    Tests("torchtitan/experiments/graph_trainer/tests/test_sac_peak_memory.py", mode="known"),
    *(Tests(f"src/accelerate/test_utils/scripts/{name}.py", script=True)
      for name in ("test_script", "test_ops", "test_sync", "test_ddp_comm_hook", "test_distributed_data_loop", "external_deps/test_peak_memory_usage")))


def run(tests, checkout, python):
    """The outcomes, an entry each (suite.Keep)."""
    keep = suite.Keep(None, TORCH)
    with suite.scratch() as folder:
        flags = ("--alloc-conf", tests.alloc_conf) if tests.alloc_conf else ()
        place = suite.Place(checkout, python, LIMIT, folder, True, tests.mode, flags, few=True, path=("test", "src"))
        if tests.script:
            text, code, late, ending = suite.ended(place, tests.file, "-m", "torch.distributed.run", "--nproc-per-node", 2, checkout / tests.file)
            why = ending if late else "\n".join(line for line in text.splitlines() if "ChildFailedError" not in line)
            return [{"test": f"{tests.file}::(program)", "outcome": "timed out" if late else "failed" if code else "passed", "why": why}]
        suite.collect(place, keep, [tests.file], *(["-k", tests.only] if tests.only else []))
        suite.run_file(place, keep, tests.file, keep.tests[tests.file])
    return [keep.outcomes[test] for test in keep.tests[tests.file]]


def main(checkouts, python=None):
    python = python or suite.prepared(TORCH)
    print("| file | passed | failed | expected to fail | skipped |\n|---|---:|---:|---:|---:|", flush=True)
    wrong, expected, skipped = [], [], []
    found_any = False
    for tests in TESTS:
        checkout = next((each for each in checkouts if (each / tests.file).is_file()), None)
        if not checkout:
            print(f"| {tests.name()} | not found | | | |", flush=True)
            continue
        found_any = True
        entries = run(tests, checkout.absolute(), python)
        failed = [entry for entry in entries if entry["outcome"] in suite.FAILED]
        known = [entry for entry in failed if reason_of(entry)]
        left_out = Counter(entry["why"] for entry in entries if entry["outcome"] == "skipped")
        print(f"| {tests.name()} | {len(entries) - len(failed) - left_out.total()} | {len(failed) - len(known)} | {len(known)} | {left_out.total()} |", flush=True)
        wrong += [f"FAILED {entry['test']}: {last_line(entry['why'])}" for entry in failed if entry not in known]
        expected += [f"* {entry['test']}: {reason_of(entry).why}" for entry in known]
        skipped += [f"* {number} of {tests.file}: {reason}" for reason, number in left_out.items()]
    for title, lines in (("Expected to fail:", expected), ("Skipped, by their own words:", skipped), ("", wrong)):
        if lines:
            print("\n" + "\n".join(filter(None, (title, "" if title else None, *lines))))
    if not found_any:
        print(f"upstream: no test file is in {', '.join(map(str, checkouts))}", file=sys.stderr)
        return 2
    return 1 if wrong else 0
