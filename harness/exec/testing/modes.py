#!/usr/bin/env python3
"""modes.py TIDEMARK FOLDER [NAME...]: the probes of FOLDER under `tidemark exec`, in mode math and in mode known. Prints for each whether
it ends well in both and whether its peaks are equal; exit code 1 where one that ends in math does not in known, or has other peaks.

FOLDER has dist_probe.py, which runs the function NAME (one marked @probe) on two ranks, and programs that take no arguments. A peak that
differs from run to run in one mode is no difference between two: math is run twice before one is reported."""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ALONE = ("scaler_peak", "alloc", "late_ops", "equal4")  # programs of one process


def run(tidemark, mode, words):
    """Whether the program ended well, and its peaks by device."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        try:
            code = subprocess.run([tidemark, "exec", "--mode", mode, "--timeout", "15", "--out", report, *words], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, check=False, timeout=180).returncode
        except subprocess.TimeoutExpired:
            code = 124
        ranks = json.loads(report.read_text())["trials"][0]["program"]["ranks"] if report.exists() and report.stat().st_size else []
        peaks = [[device[key] for key in ("allocated", "active", "reserved")] for rank in ranks for device in rank["devices"]]
        return code == 0, peaks


def main():
    tidemark, folder, *names = sys.argv[1:]
    text = (Path(folder) / "dist_probe.py").read_text()
    programs = {name: ["--", sys.executable, Path(folder) / f"{name}.py"] for name in ALONE}
    for name in re.findall(r"^@probe\ndef (\w+)", text, re.MULTILINE):
        programs[name] = ["--devices", "2", "--ranks", "2", "--", sys.executable, Path(folder) / "dist_probe.py", name]
    if unknown := [name for name in names if name not in programs]:
        sys.exit(f"error: no probe {', '.join(unknown)}; there are: {', '.join(programs)}")
    passed, wrong = {"math": 0, "known": 0}, 0
    for name in names or programs:
        (math, of_math), (known, of_known) = (run(tidemark, mode, programs[name]) for mode in passed)
        passed["math"] += math
        passed["known"] += known
        same = of_math == of_known or not math or run(tidemark, "math", programs[name])[1] == of_known
        wrong += math and not (known and same)
        print(f"{name:24} math {'ends' if math else 'fails':5}  known {'ends' if known else 'fails':5}  "
              + ("" if not math or not known else "equal peaks" if same else f"math {of_math}, known {of_known}"), flush=True)
    print(f"of {len(names or programs)}: {passed['math']} end in math, {passed['known']} in known; {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
