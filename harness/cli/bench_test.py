"""No row of `tidemark bench --self` has become slower.

A row's figure is the time of one repetition over the geometric mean of the four operators on the plain CPU in the same run:
the speed of the machine drops out, its bursts do not. bench.json holds the median of nine runs of each row; BENCH_RECORD=1 writes
it anew. The test measures each row once and the rows over the limit up to three times more. It compares the fastest figure of a row,
so that a row is wrong only if every one of its measurements is over the limit."""
import json
import math
import os
import re
import statistics
from pathlib import Path

from command import run

RECORDED = Path(__file__).with_name("bench.json")
RUNS_RECORDED = 9
RUNS_MORE = 3
# Eight other runs of the recorded build on two cores: over all rows, the slowest run of a row was at most 2.1 times the recorded
# median and the fastest at most 1.15 times. A quiet machine may ask for less.
LIMIT = float(os.environ.get("BENCH_LIMIT", 2.5))
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def measure(rows, repetitions):
    words = ["bench", "--self", f"--benchmark_filter={rows}", "--benchmark_format=json", f"--benchmark_repetitions={repetitions}", "--benchmark_min_time=0.02",
             "--benchmark_enable_random_interleaving=true"]
    done = run(*words)
    assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}"
    fastest = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        assert not row.get("error_occurred"), f"{row['name']}: {row['error_message']}"
        name = re.sub("/(iterations:[0-9]+|repeats:[0-9]+|real_time)", "", row["name"])
        fastest[name] = min(fastest.get(name, math.inf), row["real_time"] * NANOSECONDS[row["time_unit"]])
    plain = [time for name, time in fastest.items() if name.endswith("/cpu")]
    assert len(plain) == 4, f"{len(plain)} operators on the plain CPU, not 4: {sorted(fastest)}"
    unit = math.exp(sum(map(math.log, plain)) / len(plain))
    return {name: time / unit for name, time in fastest.items() if not name.endswith("/cpu")}


def record():
    runs = [measure(".", 1) for _ in range(RUNS_RECORDED)]
    rows = {name: float(f"{statistics.median(run[name] for run in runs):.3g}") for name in sorted(runs[0])}
    RECORDED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def test_bench():
    if os.environ.get("BENCH_RECORD"):
        record()
    now, recorded = measure(".", 1), json.loads(RECORDED.read_text(encoding="utf-8"))
    assert now.keys() == recorded.keys(), f"{RECORDED.name} has other rows: BENCH_RECORD=1"
    for _ in range(RUNS_MORE):
        slow = [name for name in now if now[name] > LIMIT * recorded[name]]
        if not slow:
            break
        again = measure("|".join(["/cpu", *slow]), RUNS_MORE)
        now.update({name: min(now[name], again[name]) for name in slow})
    factors = sorted(((now[name] / recorded[name], name) for name in now), reverse=True)
    print("\n".join(f"{factor:5.2f} x recorded  {name}" for factor, name in factors[:8]))
    slow = [f"{name} takes {factor:.2f} times as long as recorded; allowed are {LIMIT:g}" for factor, name in factors if factor > LIMIT]
    assert not slow, "\n".join(slow)
