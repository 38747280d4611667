"""Objects of imports that are out of the collector's sight in a copy of a server (python/tidemark_imported.py). Lists stand in for the imports."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="nothing is out of sight there")

BEGIN = """
import gc, json, os, sys
sys.path.append(sys.argv[1])
import tidemark_imported
tidemark_imported.begin()
imports = [[number] for number in range(100_000)]
gc.enable()
gc.collect()
if sys.argv[2] == "apart":
    tidemark_imported.set_apart()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
tidemark_imported.begin_in_copy()
"""


def copy(program, where="apart"):
    """What the program says in a copy."""
    done = subprocess.run([sys.executable, "-c", BEGIN + program, Path(__file__).parent / "python", where], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# holds: harness/fit/README.md, Torch is imported once
def test_imported():
    """The collector goes through all objects when the program has as many as where the imports are in its sight, and finds as much."""
    program = """
seen, kept = [], []
gc.callbacks.append(lambda phase, of: phase == "stop" and of["generation"] == 2 and seen.append((len(kept), of["collected"])))
begun = gc.get_freeze_count()
gc.set_threshold(70)
for number in range(300_000):
    kept.append([])
    if number % 10 == 0:
        cycle = []
        cycle.append(cycle)
print(json.dumps([begun, seen]))
"""
    (together, expected), (apart, seen) = copy(program, "together"), copy(program)
    assert together == 0 and apart > 100_000 and len(expected) > 1 and seen == expected, (together, expected, apart, seen)


def test_imported_holds():
    """What refers to an object is found among the imports once they have joined."""
    before, after = copy("""
kept = []
imports[0].append(kept)
holds = lambda: sum(one is imports[0] for one in gc.get_referrers(kept))
before = holds()
tidemark_imported.join()
print(json.dumps([before, holds()]))
""")
    assert (before, after) == (0, 1)


def test_imported_and_frozen():
    """What a program freezes itself stays out of sight."""
    assert copy("""
kept = [[] for _ in range(1000)]
gc.freeze()
gc.collect()
print(json.dumps(gc.get_freeze_count() > 101_000))
""")
