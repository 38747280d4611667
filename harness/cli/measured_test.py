"""Holds the virtual platform against what was recorded on GPUs: reports/measured/<profile>/run.json.xz, made by `tidemark gpu recording`."""
import json
import lzma
import re
import tempfile
from pathlib import Path

import pytest
from command import ROOT, passes, run


# Before this day the loss of these scenarios was a mean of signed outputs: programs of today have other events.
FORMER_LOSS, OF_FORMER_LOSS = "2026-11-29", {"ddp_bucket_view", "frozen_reshard", "fsdp_prefetch"}

# Programs recorded before a parameter was there had this value of it, whatever their size has today.
BEFORE = {"zero_bubble_detach": {"losses": "dropped"}}


def words_of(trial, schedules, variants, gpu, out):
    schedule = schedules.pop() if len(schedules) == 1 else "all"
    words = ["run", *(f"{trial['scenario']}/{variant}/{trial['size']}" for variant in sorted(variants))]
    for name in ("ranks", "mode", "steps", "seed"):
        words += [f"--{name}", trial[name]]
    words += ["--schedule", {"device": "calibrated"}.get(schedule, schedule), "--device", "virtual"]
    words += ["--gpu", gpu, "--races", "off", "--details", "none", "--history", "off", "--events", "--out", str(out)]
    for name, value in {**BEFORE.get(trial["scenario"], {}), **trial["params"]}.items():
        words += ["--set", f"{name}={value}"]
    return words


def place(trace):
    return json.dumps([trace[name] for name in ("scenario", "size", "ranks", "mode", "steps", "seed", "params")])


def faults(recording, rehearsal):
    """The lines that say what is wrong with it."""
    name = recording.parent.name
    data = json.loads(lzma.decompress(recording.read_bytes()))
    device = data["device"]
    if not rehearsal and (device["kind"] != "cuda" or device["profile"].startswith("rehearsal")):
        return [f"{name}: was recorded on '{device['kind']} {device['profile']}', which is no GPU"]
    groups = {}
    former = [trace for trace in data["traces"] if data["started"] < FORMER_LOSS and trace["scenario"] in OF_FORMER_LOSS]
    if former:
        print(f"{name}: {len(former)} of {len(data['traces'])} traces are of programs with another loss, and are not repeated")
    for trace in data["traces"]:
        if trace in former:
            continue
        traces, schedules, variants = groups.setdefault(place(trace), ([], set(), set()))
        traces.append(trace)
        schedules.add(trace["schedule"])
        variants.add(trace["variants"][0]["name"])
    if not groups:
        return [f"{name}: holds no trace"]
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, (trial, (mine, schedules, variants)) in enumerate(groups.items()):
            out = Path(scratch, str(number))
            words = words_of(mine[0], schedules, variants, name, out)
            made = run(*words, cwd=scratch)
            if made.returncode not in (0, 1):
                return [f"{name}: {' '.join(map(str, words))}: exit {made.returncode}: {made.stderr.strip()[-300:]}"]
            # A trial is compared with its own part of the recording.
            part = Path(scratch, f"{number}.json")
            now = json.loads(run("report", out, "--json").stdout)["trials"][0]["params"]  # those that are newer than the recording have their defaults
            part.write_text(json.dumps({**data, "traces": [{**trace, "params": {name: trace["params"].get(name, now[name]) for name in now}} for trace in mine]}))
            comparison = run("compare", part, out, "--events", cwd=scratch)
            print(f"{name} {trial}: {comparison.stdout.strip().splitlines()[-1] if comparison.stdout else comparison.stderr.strip()}")
            counts = re.search(r"(\d+) traces of .* equal, (\d+) different, (\d+) skipped", comparison.stdout)
            if comparison.returncode != 0 or counts is None or int(counts[1]) + int(counts[3]) != len(mine):
                wrong.append(f"{name} {trial}:\n{comparison.stdout}{comparison.stderr}")
    return wrong


def holds(folder, rehearsal=False):
    """Every trace is equal. Recordings of a rehearsal, which are none of hardware, count where that is said."""
    recordings = sorted(folder.glob("*/run.json.xz"))
    if not recordings:
        pytest.skip(f"no recording in {folder.name}: not yet run on hardware")
    wrong = [line for recording in recordings for line in faults(recording, rehearsal)]
    assert not wrong, "\n".join(wrong)


# night: repeats every trial of a recording; measured_changed_recording and measured_replay hold their readers by day
def test_runs():
    holds(ROOT / "reports/measured")


# holds: reports/measured/README.md, Recordings of tidemark's own runs
def test_changed_recording(capsys):
    """A recording is held, and a changed one fails."""
    passes("run", "fsdp_prefetch/stash/smoke", "--ranks", 2, "--steps", 2, "--mode", "shapes", "--schedule", "lagging",
           "--gpu", "h200-141g", "--events", "--details", "none", "--history", "off", "--out", "run", rehearsed=True)
    measured = Path("measured")
    with pytest.raises(pytest.skip.Exception, match="no recording"):
        holds(measured)
    recording = measured / "h200-141g" / "run.json.xz"
    recording.parent.mkdir(parents=True)
    data = json.loads(passes("gpu", "recording", "run").stdout)

    def keep(**changed):
        recording.write_bytes(lzma.compress(json.dumps({**data, **changed}).encode()))

    def fails(match, rehearsal=True):
        with pytest.raises(AssertionError, match=match):
            holds(measured, rehearsal)

    keep()
    fails("which is no GPU", rehearsal=False)
    holds(measured, rehearsal=True)
    assert "4 traces of " in capsys.readouterr().out
    data["traces"][0]["variants"][0]["ranks"][0]["events"][1]["bytes"][3] += 512
    keep()
    fails(r"event \d+: ")
    # Of another GPU: its multiprocessors decide temporaries, its memory does not.
    keep(traces=[])
    fails("holds no trace")
