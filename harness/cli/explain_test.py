"""`tidemark explain`: what it says of a program under other settings is what the program does under them, and bad input is one line. TORCH_SITE is
the folder with torch."""
import collections
import gzip
import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest
from command import BINARY, ROOT, passes, refuses, seed

SITE = os.environ.get("TORCH_SITE", str(ROOT / ".deps/python"))
SETTINGS = ("none", "expandable_segments:True", "max_split_size_mb:25", "roundup_power2_divisions:4", "expandable_segments:True,roundup_power2_divisions:8",
            "max_split_size_mb:21,roundup_power2_divisions:2")


def made(lines):
    """Runs random_program.py on the platform, a run for each line; PyTorch's statistics of each by its file."""
    environment = {**{key: value for key, value in os.environ.items() if not key.startswith("TIDEMARK_")},
                   "PYTHONPATH": SITE, "TIDEMARK_UNKNOWN": "nan",
                   "LD_PRELOAD": ":".join(sorted(map(str, (Path(BINARY).resolve().parent / "virtual").glob("*.so.*"))))}
    done = subprocess.run([sys.executable, ROOT / "harness/memory/testing/random_program.py"], input="".join(line + "\n" for line in lines), capture_output=True,
                          text=True, check=False, env=environment)
    assert done.returncode == 0, f"random_program.py: exit {done.returncode}: {done.stderr.strip()[-500:]}"
    return {row["out"]: row for row in map(json.loads, done.stdout.splitlines())}


def reserved_until(file, allocations):
    """Returns the highest reserved bytes of a trace up to its `allocations`-th allocation."""
    (trace,) = pickle.loads(Path(file).read_bytes())["device_traces"]
    level = highest = count = 0
    for event in trace:
        count += event["action"] == "alloc"
        if count > allocations:
            break
        level += {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}.get(event["action"], 0) * event["size"]
        highest = max(highest, level)
    return highest


def emptied(file):
    """The calls of empty_cache that a trace shows: those that gave something back."""
    (trace,) = pickle.loads(Path(file).read_bytes())["device_traces"]
    back = [event["action"] in ("segment_free", "segment_unmap") and any(frame["name"] == "empty_cache" for frame in event["frames"]) for event in trace]
    return sum(now and not before for before, now in zip([False, *back], back))


def lives(file):
    """Of each allocation of a trace, after how many allocations it was freed and came back."""
    (trace,) = pickle.loads(Path(file).read_bytes())["device_traces"]
    count, at, out = 0, {}, collections.defaultdict(dict)
    for event in trace:
        if event["action"] == "alloc":
            count += 1
            at[event["addr"]] = count
        elif event["action"] in ("free_requested", "free_completed"):
            out[at[event["addr"]]][event["action"]] = count
    return out


def check_drawn(count, number):
    """Programs under drawn settings, each explained under others and run under these: the same peaks, retries and end, to the byte."""
    drawn = random.Random(number)
    pairs = []
    for i in range(count):
        settings = drawn.sample(SETTINGS, 2)
        words = ["zero", *drawn.choice(([], ["streams"], ["streams", "work"], ["empty"], ["streams", "work", "empty"]))]
        # Under lagging a free that waits for another stream comes back when something waits for it; under the others time brings it back too, and
        # the times are those of the recorded settings.
        words.append("schedule=lagging" if "work" in words else "schedule=instant")
        # A retry waits for all streams, after which frees come back earlier than without one: where work of streams holds frees back, both have room.
        tight = [0, 0] if "work" in words else [drawn.choice((0, drawn.randrange(120, 400))), drawn.choice((0, drawn.randrange(120, 400)))]
        pairs.append((f"{i}", drawn.randrange(1 << 30), settings, words, tight))
    lines = []
    for name, program, settings, words, tight in pairs:
        for side in (0, 1):
            more = [f"capacity={tight[side]}"] if tight[side] else []
            lines.append(f"{name}.{'ab'[side]}.pickle {program} {settings[side]} {','.join(words + more)}")
    statistics = made(lines)
    counts = collections.Counter()
    for name, program, settings, words, tight in pairs:
        what = f"TIDEMARK_TEST_SEED={number}, program {name} ({program}): {settings[0]} explained as {settings[1]}, {words}, {tight} MiB"
        # What the recorded settings set is named again, as it is without a setting.
        changes = {"expandable_segments": "False", "max_split_size_mb": str(1 << 20), "roundup_power2_divisions": "1"}
        changes = {key: value for key, value in changes.items() if key in settings[0]}
        changes.update(part.split(":") for part in settings[1].split(",") if part != "none")
        if emptied(f"{name}.a.pickle") < statistics[f"{name}.a.pickle"]["emptied"]:
            counts["emptied in vain"] += 1  # which no trace shows, and under other settings it may give something back
            continue
        if "work" in words and lives(f"{name}.a.pickle") != lives(f"{name}.b.pickle"):
            counts["other times"] += 1  # a device that gives memory back waits for its streams: the frees of the two runs came back at different places
            continue
        setting = ",".join(map(":".join, changes.items())) or "expandable_segments:False"
        capacity = f"{tight[1]}MiB" if tight[1] else "200GiB"
        done = passes("explain", f"{name}.a.pickle", "--setting", setting, "--capacity", capacity, "--format", "json")
        (_, row) = json.loads(done.stdout)["changes"]
        there, here = statistics[f"{name}.b.pickle"], row
        assert "refused" not in row, f"{what}: {row}"
        if here["served_refused"] and "roundup" in settings[0]:
            counts["rounded requests"] += 1  # the trace has the one that failed as the recorded setting rounded it
            assert "roundup_power2_divisions rounded it" in passes("explain", f"{name}.a.pickle", "--setting", setting, "--capacity", capacity).stdout, what
            continue
        assert here["reserved_peak"] == reserved_until(f"{name}.b.pickle", here["allocations"]), f"{what}: {here}\n{there}"
        if here["served_refused"] is None:
            assert (here["reserved_peak"], here["allocated_peak"], here["active_peak"], here["retries"], here["refused_again"] + (here["ran_out"] is not None)) == \
                tuple(there[key] for key in ("reserved_bytes.all.peak", "allocated_bytes.all.peak", "active_bytes.all.peak", "num_alloc_retries", "num_ooms")), \
                f"{what}: {here}\n{there}"
        counts["served" if here["served_refused"] else "refused here" if here["ran_out"] else "to the end"] += 1
        counts["with retries"] += here["retries"] > 0
    print(f"{count} programs: {dict(counts)}")
    return counts


# holds: reports/README.md, explain
def test_recordings():
    """What an H100 had recorded is what the allocator makes of its requests; and without the recorded setting it is what test_recorded_on_a_gpu runs."""
    for name, setting, reserved in (("expandable", "expandable_segments:False", 1790967808), ("side_stream", "", None)):
        recording = ROOT / f"reports/measured/h100-80g/{name}.json.gz"
        rows = json.loads(passes("explain", recording, "--setting", setting or "roundup_power2_divisions:1", "--format", "json").stdout)["changes"]
        peak = max(reserved for _, reserved in json.loads(gzip.decompress(recording.read_bytes()))["source"]["peaks"])
        assert [row["reserved_peak"] for row in rows] == [peak, reserved or peak], f"{name}: {rows}, and not {peak}, {reserved}"


# night: runs 400 programs and asks the allocator 200 times; test_recordings has two recordings by day
def test_many_drawn_programs():
    """All 200 with --all, else an eighth of them."""
    eighths = 1 if os.environ.get("TIDEMARK_TEST_DRAW") else 8
    counts = check_drawn(25 * eighths, seed())
    assert min(counts["served"] + counts["refused here"], counts["to the end"]) >= eighths, counts
    assert eighths == 1 or min(counts["served"], counts["refused here"], counts["with retries"]) > 5, counts


# night: runs four programs and asks the allocator twice
def test_memory_fraction():
    """A program that is explained with a fraction of its GPU does what it does under torch.cuda.set_per_process_memory_fraction, and --capacity takes nothing from it."""
    drawn = random.Random(seed())
    counts = collections.Counter()
    for name in ("0", "1"):
        program, part = drawn.randrange(1 << 30), drawn.uniform(0.002, 0.004)
        statistics = made([f"{name}.a.pickle {program} none zero,schedule=instant", f"{name}.b.pickle {program} none zero,schedule=instant,fraction={part}"])
        there = statistics[f"{name}.b.pickle"]
        for more in ([], ["--capacity", "40GiB"]):
            done = passes("explain", f"{name}.a.pickle", "--gpu", "h100-80g", "--setting", f"per_process_memory_fraction:{part}", *more, "--format", "json")
            (_, row) = json.loads(done.stdout)["changes"]
            what = f"TIDEMARK_TEST_SEED={seed()}, program {program}, {part} of the GPU: {row}\n{there}"
            assert (row["reserved_peak"], row["retries"], row["ran_out"] is not None) == (there["reserved_bytes.all.peak"], there["num_alloc_retries"], there["num_ooms"] > 0), what
            assert row["reserved_peak"] <= row["capacity"] < 400 << 20, what
        counts["refused" if row["ran_out"] else "to the end"] += 1
    print(dict(counts))
    said = passes("explain", "0.a.pickle", "--gpu", "h100-80g", "--setting", "per_process_memory_fraction:1.5").stdout
    assert "not known: per_process_memory_fraction is above 1" in said, said


def sample(trace, segments=()):
    return pickle.dumps({"segments": list(segments), "device_traces": [list(trace)], "allocator_settings": {}}, 4)


def test_bad_input():
    class Evil:
        def __reduce__(self):
            return os.system, ("touch executed",)
    event = {"action": "alloc", "addr": 1 << 21, "size": 512, "stream": 0, "frames": [], "time_us": 1}
    segment = {"address": 1 << 21, "total_size": 2 << 20, "stream": 0, "segment_type": "small", "device": 0,
               "blocks": [{"address": 1 << 21, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": []},
                          {"address": (1 << 21) + 512, "size": (2 << 20) - 512, "requested_size": 0, "state": "inactive", "frames": []}]}
    whole = sample([{"action": "segment_alloc", "addr": 1 << 21, "size": 2 << 20, "stream": 0, "frames": [], "time_us": 0}, event], [segment])
    files = {"text": (b"hello\n", "neither"), "cut": (whole[:-20], "cut"), "evil": (pickle.dumps(Evil()), "evil"), "gzip": (gzip.compress(whole)[:-9], "cut off gzip"),
             "nothing": (sample([]), "no memory"), "empty": (b"", "is empty")}
    for name, (contents, says) in files.items():
        Path(name).write_bytes(contents)
        refuses(2, says, "explain", name)
    assert not Path("executed").exists()
    Path("whole").write_bytes(whole)
    refuses(2, "--edit 'x' is not FILE:LINE", "explain", "whole", "--edit", "x")
    refuses(2, "'x' is no setting", "explain", "whole", "--setting", "x")
    refuses(2, "'max_split' is none of the settings", "explain", "whole", "--setting", "max_split:3")
    refuses(2, "--capacity", "explain", "whole", "--capacity", "much")
    refuses(2, "has no device 1", "explain", "whole", "--device", 1)
    refuses(2, "--report whole: is a file", "explain", "whole", "--report", "whole")
    passes("explain", "whole", "--report", "page", TIDEMARK_NO_SCENARIOS="there is no allocator")
    page = Path("page/report.html").read_text(encoding="utf-8")
    assert page.count("Not known: there is no allocator.") == 1 and "max_split_size_mb:512" not in page, "one sentence in the place of a table"
    Path("snapshot_alone").write_bytes(sample([], [segment]))
    said = passes("explain", "snapshot_alone").stdout
    assert said.startswith("the file has no trace") and "would have fitted" not in said, said
    frame = {"filename": "train.py", "name": "step", "line": 3}
    Path("refused").write_bytes(sample([{"action": "oom", "size": 1 << 40, "device_free": 1 << 20, "stream": 7, "frames": [frame], "time_us": 1}], []))
    said = passes("explain", "refused").stdout
    assert "1 TiB asked for by step train.py:3, 1 MiB free" in said and "no stacks" not in said, said
    assert "fault" not in said and "::" not in said and "as recorded" in said, f"a stream that had no memory yet: {said}"


# night: trains with two recorded programs
def test_recorded_on_a_gpu():
    """Two programs that an H100 recorded under settings: run here without these and explained with them, they reserve what the H100 did; and its
    recordings, explained without them, what the runs here reserve."""
    measured = ROOT / "reports/measured"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TIDEMARK_")} | {"PYTHONPATH": SITE}
    for name, setting, without in (("expandable", "expandable_segments:True", "expandable_segments:False"),
                                   ("settings", "max_split_size_mb:128,roundup_power2_divisions:4", "max_split_size_mb:1048576,roundup_power2_divisions:1")):
        done = subprocess.run([BINARY, "exec", "--gpu", "h100-80g", "--schedule", "lagging", "--", sys.executable, measured / "record.py", "--one", name, "--out", "."],
                              capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, f"{name}: {done.stdout[-1500:]}{done.stderr[-500:]}"
        there, here = measured / "h100-80g" / f"{name}.json.gz", Path(f"{name}.json.gz")
        for file, change, other in ((here, setting, there), (there, without, here)):
            (_, row) = json.loads(passes("explain", file, "--setting", change, "--format", "json").stdout)["changes"]
            peak = max(reserved for _, reserved in json.loads(gzip.decompress(other.read_bytes()))["source"]["peaks"])
            print(f"{file} with {change}: {row['reserved_peak']} reserved at most, and {peak} in {other}")
            assert row["reserved_peak"] == peak, f"{file} with {change}: {row}, and not {peak}"
