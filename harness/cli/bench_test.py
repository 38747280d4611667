#!/usr/bin/env python3
"""bench_test.py TIDEMARK [--record | --limit FACTOR]: whether a row of `tidemark bench` has become slower.

A row's figure is its fastest repetition (they come in random order), over the geometric mean of the four operators on the
plain CPU in the same run: the speed of the machine drops out, its bursts do not. bench.json holds the figures; --record writes
them anew, each from three repetitions. A test measures each row once, those over the limit three times more, and a row is
wrong if it is over it again."""
import argparse
import json
import math
import re
import subprocess
import sys
from pathlib import Path

RECORDED = Path(__file__).with_name("bench.json")
REPETITIONS = 3
# On a shared machine one build's rows were up to 1.33 times their record. A quiet one may ask for less.
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
    now = measure(options.tidemark, ".", REPETITIONS if options.record else 1)
    if options.record:
        rows = {name: float(f"{figure:.3g}") for name, figure in sorted(now.items())}
        RECORDED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return 0
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    wrong = [f"{name} is not in {RECORDED.name}: --record" for name in sorted(now.keys() - recorded.keys())]
    wrong += [f"{name} is in {RECORDED.name} and was not measured: --record" for name in sorted(recorded.keys() - now.keys())]
    both = now.keys() & recorded.keys()
    slow = [name for name in both if now[name] > options.limit * recorded[name]]
    if slow:
        again = measure(options.tidemark, "|".join(["/cpu", *slow]), REPETITIONS)
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
