#!/usr/bin/env python3
"""bench_test.py TIDEMARK [--record | --limit FACTOR]: whether a row of `tidemark bench` has become slower.

A row's figure is the time of one repetition over the geometric mean of the four operators on the plain CPU in the same run:
the speed of the machine drops out, its bursts do not. bench.json holds the median of nine runs of each row; --record writes it
anew. A test measures each row once and the rows over the limit up to three times more. It compares the fastest figure of a row,
so that a row is wrong only if every one of its measurements is over the limit."""
import argparse
import json
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path

RECORDED = Path(__file__).with_name("bench.json")
RUNS_RECORDED = 9
RUNS_MORE = 3
# Eight other runs of the recorded build on two cores: over all rows, the slowest run of a row was at most 2.1 times the recorded
# median and the fastest at most 1.15 times. A quiet machine may ask for less.
LIMIT = 2.5
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def measure(tidemark, rows, repetitions):
    command = [tidemark, "bench", f"--benchmark_filter={rows}", "--benchmark_format=json", f"--benchmark_repetitions={repetitions}", "--benchmark_min_time=0.02",
               "--benchmark_enable_random_interleaving=true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    fastest = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        if row.get("error_occurred"):
            sys.exit(f"error: {row['name']}: {row['error_message']}")
        name = re.sub("/(iterations:[0-9]+|repeats:[0-9]+|real_time)", "", row["name"])
        fastest[name] = min(fastest.get(name, math.inf), row["real_time"] * NANOSECONDS[row["time_unit"]])
    plain = [time for name, time in fastest.items() if name.endswith("/cpu")]
    if len(plain) != 4:
        sys.exit(f"error: {len(plain)} operators on the plain CPU, not 4: {sorted(fastest)}")
    unit = math.exp(sum(map(math.log, plain)) / len(plain))
    return {name: time / unit for name, time in fastest.items() if not name.endswith("/cpu")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tidemark")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--limit", type=float, default=LIMIT)
    options = parser.parse_args()
    if options.record:
        runs = [measure(options.tidemark, ".", 1) for _ in range(RUNS_RECORDED)]
        rows = {name: float(f"{statistics.median(run[name] for run in runs):.3g}") for name in sorted(runs[0])}
        RECORDED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return 0
    now = measure(options.tidemark, ".", 1)
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    wrong = [f"{name} is not in {RECORDED.name}: --record" for name in sorted(now.keys() - recorded.keys())]
    wrong += [f"{name} is in {RECORDED.name} and was not measured: --record" for name in sorted(recorded.keys() - now.keys())]
    both = now.keys() & recorded.keys()
    for _ in range(RUNS_MORE):
        slow = [name for name in both if now[name] > options.limit * recorded[name]]
        if not slow:
            break
        again = measure(options.tidemark, "|".join(["/cpu", *slow]), RUNS_MORE)
        now.update({name: min(now[name], again[name]) for name in slow})
    factors = sorted(((now[name] / recorded[name], name) for name in both), reverse=True)
    print("\n".join(f"{factor:5.2f} x recorded  {name}" for factor, name in factors[:8]))
    for factor, name in factors:
        if factor > options.limit:
            wrong.append(f"{name} takes {factor:.2f} times as long as recorded; allowed are {options.limit:g}")
    for line in wrong:
        print(f"error: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
