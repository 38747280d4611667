#!/usr/bin/env python3
"""long_test.py TIDEMARK SITE CASE: a step of `tidemark exec --report` costs in the end what it costs in the beginning, in seconds and in memory."""
import re
import sys

from testing.said import FOLDER, HERE, MIB, Said

# The noise of CPU seconds on a busy machine is below a third. A step that looks at all steps before it would cost some times as much.
RATIO = 1.5
# Bytes that 500 steps may add. The steps that differ are in the file; the process keeps no more than the last 16 MiB for comparison, and its allocator's slack.
GROWTH = {"sizes": 24 * MIB}


def ends_as_it_begins(kind, *flags):
    report = FOLDER / "_".join(map(str, (kind, *flags)))
    said = Said(*flags, "--report", report, "--", sys.executable, HERE / "long.py", kind).ends(0)
    found = re.search(r"seconds (\S+) (\S+) growth (-?\d+)", said.out)
    said.check(found, "the program says what it took")
    first, last, growth = float(found[1]), float(found[2]), int(found[3])
    print(f"{kind} {' '.join(map(str, flags))}: {first:.2f} s, {last:.2f} s in the end, {growth / MIB:.1f} MiB more")
    said.check(last < RATIO * first, f"{kind}: the last hundred steps cost {last} CPU seconds, the second hundred {first}")
    said.check(growth < GROWTH.get(kind, 4 * MIB), f"{kind}: {growth} bytes more after 500 steps")
    size = sum(file.stat().st_size for file in report.glob("*.pickle"))
    said.check(kind == "sizes" or size < MIB, f"{kind}: the snapshots have {size} bytes")


def case_long():
    ends_as_it_begins("plain")
    ends_as_it_begins("plain", "--races", "on")


def case_long_kinds():
    for kind in "no optimizer", "checkpoints", "sizes":
        ends_as_it_begins(kind)
    ends_as_it_begins("collectives", "--ranks", 2)


if __name__ == "__main__":
    from testing.said import run

    run(globals())
