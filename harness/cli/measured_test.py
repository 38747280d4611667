#!/usr/bin/env python3
"""Holds the virtual platform against what was recorded on GPUs: reports/measured/<profile>/run.json.xz, made by `tidemark gpu recording`.
measured_test.py TIDEMARK FOLDER [--rehearsal]: 0 where every trace is equal, 1 where one is not, 77 where nothing was recorded.
With --rehearsal recordings of a rehearsal count, which are none of hardware."""
import json
import lzma
import pathlib
import re
import sys
import tempfile

from command import run


def words_of(trial, schedules, variants, gpu, out):
    schedule = schedules.pop() if len(schedules) == 1 else "all"
    words = ["run", *(f"{trial['scenario']}/{variant}/{trial['size']}" for variant in sorted(variants))]
    for name in ("ranks", "mode", "steps", "seed"):
        words += [f"--{name}", trial[name]]
    words += ["--schedule", {"device": "calibrated"}.get(schedule, schedule), "--device", "virtual"]
    words += ["--gpu", gpu, "--races", "off", "--details", "none", "--history", "off", "--events", "--out", str(out)]
    for name, value in trial["params"].items():
        words += ["--set", f"{name}={value}"]
    return words


def place(trace):
    return json.dumps([trace[name] for name in ("scenario", "size", "ranks", "mode", "steps", "seed", "params")])


def check(recording, rehearsal):
    """The lines that say what is wrong with it."""
    name = recording.parent.name
    data = json.loads(lzma.decompress(recording.read_bytes()))
    device = data["device"]
    if not rehearsal and (device["kind"] != "cuda" or device["profile"].startswith("rehearsal")):
        return [f"{name}: was recorded on '{device['kind']} {device['profile']}', which is no GPU"]
    groups = {}
    for trace in data["traces"]:
        traces, schedules, variants = groups.setdefault(place(trace), ([], set(), set()))
        traces.append(trace)
        schedules.add(trace["schedule"])
        variants.add(trace["variants"][0]["name"])
    if not groups:
        return [f"{name}: holds no trace"]
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, (trial, (mine, schedules, variants)) in enumerate(groups.items()):
            out = pathlib.Path(scratch, str(number))
            words = words_of(mine[0], schedules, variants, name, out)
            made = run(*words, cwd=scratch)
            if made.returncode not in (0, 1):
                return [f"{name}: {' '.join(map(str, words))}: exit {made.returncode}: {made.stderr.strip()[-300:]}"]
            # A trial is compared with its own part of the recording.
            part = pathlib.Path(scratch, f"{number}.json")
            part.write_text(json.dumps({**data, "traces": mine}))
            held = run("compare", part, out, "--events", cwd=scratch)
            print(f"{name} {trial}: {held.stdout.strip().splitlines()[-1] if held.stdout else held.stderr.strip()}")
            counts = re.search(r"(\d+) traces of .* equal, (\d+) different, (\d+) skipped", held.stdout)
            if held.returncode != 0 or counts is None or int(counts[1]) + int(counts[3]) != len(mine):
                wrong.append(f"{name} {trial}:\n{held.stdout}{held.stderr}")
    return wrong


def main():
    folder = pathlib.Path(sys.argv[2])
    recordings = sorted(folder.glob("*/run.json.xz"))
    if not recordings:
        print(f"no recording in {folder.name}: not yet run on hardware")
        return 77
    wrong = [line for recording in recordings for line in check(recording, "--rehearsal" in sys.argv[3:])]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
