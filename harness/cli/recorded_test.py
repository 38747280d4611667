#!/usr/bin/env python3
"""Holds the virtual platform against the recordings of real GPUs in reports/measured/*.json.gz.
recorded_test.py TIDEMARK FOLDER replay
    Every recording is replayed: the same segments, and every allocation where one segment layout explains it. Then bad input.
recorded_test.py TIDEMARK FOLDER own SITE
    Snapshots of programs that run on the platform (reports/snapshot/testing/random_program.py) are replayed: all segments and addresses. In
    one with PyTorch's default stacks, `snapshot show` names the lines of the program and the nodes of autograd.
recorded_test.py TIDEMARK FOLDER step SITE
    The programs FOLDER/step.py and FOLDER/from_zero.py, run on the platform, make the events of the recordings, each in its place; SITE is
    where torch lies.
recorded_test.py TIDEMARK FOLDER ranks SITE
    FOLDER/two_ranks.py, run by tidemark exec, has the figures of FOLDER/printed/two_ranks.json to the byte.
recorded_test.py TIDEMARK FOLDER programs SITE
    FOLDER/record.py, run by tidemark exec, makes the events and peaks of the recordings in FOLDER/h100-80g, of one GPU and of two ranks with NCCL.
recorded_test.py TIDEMARK FOLDER asked SITE
    FOLDER/asked.py on the platform: of each library, as many calls ask for the same bytes as on the GPU of FOLDER/h100-80g/asked.jsonl.xz as are known to.
    77: this python3 cannot import the torch of SITE."""
import collections
import gzip
import json
import lzma
import os
import pathlib
import pickle
import re
import subprocess
import sys

from checks import check, in_scratch

EVENTS = 118611  # of the recordings with a program in FOLDER
# Rules for addresses under which every allocation lies in its recorded place. Under the others the events are equal alone, but for the
# forward pass, where one segment comes an event later.
PLACED = {"medium": "wsl2", "windows": "wsl2:156,186", "wsl": "wsl2:80,96", "from": "linux"}
AMBIGUOUS = {"medium_512_training"}  # what its blocks were before the trace does not follow from it

# With PyTorch alone, and without a workspace that is modelled.
PROGRAMS = ("settings", "side_stream", "optimizers", "fp8_products", "sdpa_default", "sdpa_efficient", "sdpa_math", "expandable", "lengths_and_cache",
            "graph_of_a_step", "batch_halved_when_out_of_memory", "ddp", "fsdp2_bf16", "fsdp2_fp32_kept", "tensor_parallel")
# Calls of asked.py that ask for the recorded bytes.
ASKED = {"attention": 304, "norms": 38, "convolutions": 518, "sorts": 156, "recurrent": 379, "fft": 141, "linalg": 1904}


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)


def replays(binary, recordings):
    events = 0
    for recording in recordings:
        done = run(binary, "snapshot", "replay", recording)
        print(done.stdout + done.stderr, end="")
        segments = re.search(r"segments: (none came or went, as recorded|all ([\d,]+) segment events? as recorded)", done.stdout)
        blocks = re.search(r"(\d+) of (\d+) allocations at the recorded address", done.stdout)
        check(done.returncode == 0 and segments and blocks, f"{recording.name}: exit {done.returncode}")
        if blocks and recording.name.split(".")[0] not in AMBIGUOUS:
            check(blocks[1] == blocks[2], f"{recording.name}: {blocks[0]}")
        events += int(segments[2].replace(",", "")) if segments and segments[2] else 0
    print(f"{len(recordings)} recordings, {events} segment events")


def bad_input(binary, recordings, scratch):
    with gzip.open(recordings[0]) as packed:
        data = json.load(packed)
    event = {"action": "alloc", "addr": 0, "size": 512, "stream": 0}
    segment = {"address": 0, "total_size": 2 << 20, "stream": 0, "segment_type": "small", "blocks": [{"size": 2 << 20, "state": "inactive"}]}
    files = {
        "text": (b"hello\n", "f: "),
        "cut": (pickle.dumps({"segments": [], "device_traces": []})[:-5], "f: "),
        "traceless": (pickle.dumps({"segments": [segment], "device_traces": []}), "has no trace: record with"),
        "devices": (pickle.dumps({"segments": [segment], "device_traces": [[event], [event]]}), "has the traces of devices 0 and 1: choose one with --device"),
        "gzip": (recordings[0].read_bytes()[:-9], "damaged or cut off gzip"),
        "another": (pickle.dumps({"segments": [segment], "device_traces": [[event]]}), "allocates a block that is not there afterwards"),
        "unusual": (json.dumps({**data, "segments_at_end": [{"address": 0, "size": 3 << 20, "type": "large", "stream": 0,
                                                             "blocks": [[3 << 20, "inactive", 0]]}],
                                "events": {"action": [data["actions"].index("free_requested")], "size": [1], "stream": [0], "address": [0]}}).encode(),
                    "has a large segment of 3145728 bytes, which PyTorch does not make"),
        "missing": (None, "cannot be read"),
    }
    for name, (contents, expected) in files.items():
        path = scratch / name
        if contents is not None:
            path.write_bytes(contents)
        for words in (["snapshot", "replay", path], ["compare", "--events", recordings[0], path]):
            if words[0] == "compare" and name in ("another", "unusual"):
                continue  # a trace can be compared, whatever lay there before it
            done = run(binary, *words)
            lines = done.stderr.splitlines()
            check(done.returncode == 2 and len(lines) == 1 and expected.replace("f: ", f"{path}: ") in lines[0],
                  f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr}")
    # One that begins in the middle is replayed: the segments before it follow from those at its end.
    cut = {**data, "events": {key: column[len(column) // 2:] for key, column in data["events"].items()}}
    (scratch / "middle").write_text(json.dumps(cut))
    done = run(binary, "snapshot", "replay", scratch / "middle")
    check(done.returncode == 0 and "segment events as recorded" in done.stdout, f"the second half: {done.stdout}{done.stderr}")
    # A recording whose allocator did something else is told apart.
    sizes = data["events"]["size"]
    place = next(i for i, action in enumerate(data["events"]["action"]) if data["actions"][action] == "segment_alloc")
    sizes[place] += 2 << 20
    for one in data["segments_at_end"]:
        if one["address"] == data["events"]["address"][place]:
            one["size"] += 2 << 20
            one["blocks"].append([2 << 20, "inactive", 0])
    (scratch / "other").write_text(json.dumps(data))
    done = run(binary, "snapshot", "replay", scratch / "other")
    check(done.returncode == 1 and "recorded segment_alloc" in done.stdout, f"another segment: {done.returncode} {done.stdout}{done.stderr}")


def platform(binary, site):
    """The environment of a program on the platform, with the torch of SITE."""
    environment = {**os.environ, "PYTHONPATH": site, "PYTHONDONTWRITEBYTECODE": "1", "TIDEMARK_GPU": "a100-80g", "TIDEMARK_UNKNOWN": "nan",
                   "LD_PRELOAD": ":".join(sorted(map(str, (pathlib.Path(binary).parent / "virtual").glob("*.so.*"))))}
    version = run(sys.executable, "-c", "import torch; print(torch.__version__)", env=environment)
    if version.returncode != 0:
        print(f"skipped: {sys.executable} ({sys.version.split()[0]}) cannot import torch from {site}, which is built for Python 3.11: "
              + version.stderr.strip().splitlines()[-1])
        sys.exit(77)
    print(f"torch {version.stdout.strip()}, Python {sys.version.split()[0]}")
    return environment


def own(binary, folder, site, scratch):
    """RUN: (settings, words, devices)"""
    runs = {
        "from_zero": ("none", "zero,streams,empty", 1),
        "middle": ("none", "streams,empty", 1),
        "expandable": ("expandable_segments:True", "zero,empty", 1),
        "expandable_middle": ("expandable_segments:True", "streams,empty", 1),
        "pools": ("none", "streams,pools,empty", 1),
        "expandable_pools": ("expandable_segments:True", "pools,empty", 1),
        "split": ("max_split_size_mb:25", "zero,empty", 1),
        "devices": ("none", "zero,empty", 2),
    }
    environment = platform(binary, site)
    total = [0, 0]
    for devices in (1, 2):
        lines = "".join(f"{scratch / name} 1 {settings} {words}\n" for name, (settings, words, count) in runs.items() if count == devices)
        done = run(sys.executable, folder.parent / "snapshot" / "testing" / "random_program.py", env={**environment, "TIDEMARK_DEVICES": str(devices)}, input=lines)
        check(done.returncode == 0, f"random_program.py: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    for name, (_, _, devices) in runs.items():
        for device in range(devices):
            done = run(binary, "snapshot", "replay", scratch / name, *(["--device", device] if devices > 1 else []))
            blocks = re.search(r"(\d+) of (\d+) allocations at the recorded address", done.stdout)
            segments = re.search(r"all (\d+) segment events as recorded", done.stdout)
            check(done.returncode == 0 and segments and blocks and blocks[1] == blocks[2], f"{name}: exit {done.returncode}: {done.stdout}{done.stderr}")
            if segments and blocks:
                total = [total[0] + int(segments[1]), total[1] + int(blocks[1])]
    done = run(binary, "snapshot", "replay", scratch / "devices", "--device", 2)
    check(done.returncode == 2 and "has no trace of device 2, but of devices 0 and 1" in done.stderr, f"another device: {done.stderr}")
    done = run(sys.executable, folder / "from_zero.py", "--program", "attention", "--frames", "--out", scratch / "frames", env=environment)
    shown = run(binary, "snapshot", "show", scratch / "frames").stdout
    check("softened from_zero.py:" in shown and ": DivBackward0" in shown and ".cpp:" not in shown, f"PyTorch's default stacks: {done.stderr}{shown}")
    print(f"{len(runs)} programs: {total[0]} segment events, {total[1]} allocations at the recorded address")


def program_of(name):
    """The program that makes the events of a recording, and its options."""
    kind, context, *what = name.split("_")
    if kind in ("wsl", "from"):
        return "from_zero.py", f"--program {what[-2] if kind == 'wsl' else what[-1]}"
    if kind == "windows":
        return "step.py", "--windows --context 256"
    mixed = context == "512" or (context == "1024" and what == ["training"])
    return "step.py", f"--context {context} {'--training' if what == ['training'] else ''} {'--autocast' if mixed else ''}"


def on_h100(binary, environment, *words):
    """Runs a program of FOLDER by exec, which brings the platform, as an H100."""
    done = run(binary, "exec", "--gpu", "h100-80g", *words,
               env={key: value for key, value in environment.items() if not key.startswith("TIDEMARK_") and key != "LD_PRELOAD"})
    check(done.returncode == 0, f"{words}: exit {done.returncode}: {done.stdout[-1500:]}{done.stderr.strip()[-500:]}")


def ranks(binary, folder, site, scratch):
    on_h100(binary, platform(binary, site), "--devices", 2, "--mode", "shapes", "--", sys.executable, folder / "two_ranks.py", scratch / "made")
    printed = json.loads((folder / "printed" / "two_ranks.json").read_text())
    equal = figures = 0
    for mode in ("full", "sharded"):
        for rank, moments in enumerate(printed[mode]):
            made = json.loads((scratch / f"made.{mode}.{rank}").read_text())
            for moment, statistics in moments.items():
                for name, value in statistics.items():
                    figures += 1
                    equal += made[moment][name] == value
                    check(made[moment][name] == value, f"{mode}, rank {rank}, {moment}, {name}: printed {value}, here {made[moment][name]}")
    check(figures == 72, f"{figures} figures, not 72")
    print(f"{equal} of {figures} figures of two ranks as printed")


# A program that was recorded let go late of what a stream used.
LATE = ("--schedule", "lagging")


def programs(binary, folder, site, scratch):
    on_h100(binary, platform(binary, site), *LATE, "--", sys.executable, folder / "record.py", "--out", scratch, "--jobs", 2, *PROGRAMS)
    events = 0
    for name in PROGRAMS:
        for file in sorted((folder / "h100-80g").glob(f"{name}.*json.gz")):
            both = [json.loads(gzip.decompress((where / file.name).read_bytes())) for where in (file.parent, scratch)]
            allocated, reserved = ([[peak[n] for peak in each["source"]["peaks"]] for each in both] for n in (0, 1))
            check(allocated[0] == allocated[1], f"{file.name}: allocated at its highest {allocated}")
            held = run(binary, "compare", "--events", file, scratch / file.name)
            equal = re.search(r"events: all (\d+) equal", held.stdout) or re.search(r"without segments: all events equal", held.stdout)
            check(equal, f"{file.name}: {held.stdout}{held.stderr}")
            events += len(both[0]["events"]["action"])
            print(f"{file.name}: {equal and equal[0]}; reserved {'as recorded' if reserved[0] == reserved[1] else reserved}")
    print(f"{events} events of {len(PROGRAMS)} programs")


def asked(binary, folder, site, scratch):
    environment = platform(binary, site)
    with lzma.open(folder / "h100-80g" / "asked.jsonl.xz", "rt") as file:
        rows = list(map(json.loads, file))
    answers = ("asked", "freed", "first", "refused")

    def what(row):
        return json.dumps({key: value for key, value in row.items() if key not in answers}, sort_keys=True)

    def bytes_of(row):
        """What a call asks for; of a recurrent network what it keeps, the workspace's rule being too simple."""
        asked_for = row.get("asked")
        return [n for n in asked_for if n not in row["freed"]] if asked_for and row["catalogue"] == "recurrent" else asked_for

    there = {what(row): bytes_of(row) for row in rows}
    same, all_ = collections.Counter(), collections.Counter()
    for name in ASKED:
        on_h100(binary, environment, *LATE, "--mode", "known" if name == "recurrent" else "shapes", "--", sys.executable, folder / "asked.py",
                "--out", scratch / name, *(["--part", "0/2"] if name == "recurrent" else []), name)
        for row in map(json.loads, (scratch / name).read_text().splitlines()):
            if what(row) in there:
                all_[name] += 1
                same[name] += "refused" not in row and bytes_of(row) == there[what(row)]
    for name, least in ASKED.items():
        print(f"{name}: {same[name]} of {all_[name]} calls as recorded")
        check(same[name] >= least, f"{name}: {same[name]} calls ask for what they asked for on the GPU, and not {least}")


def distances(segments, size):
    """The segments at the end: how far above the lowest one each lies, and its size."""
    lowest = min(one["address"] for one in segments)
    return sorted((one["address"] - lowest, one[size]) for one in segments)


def step(binary, folder, recordings, site, scratch):
    environment = platform(binary, site)
    events = placed = 0
    for placement in ("linux", "wsl2", "wsl2:156,186", "wsl2:80,96"):
        names = [r.name.split(".")[0] for r in recordings]
        names = [name for name in names if PLACED[name.split("_")[0]] == placement or (placement == "linux" and "forward" not in name)]
        for script in ("step.py", "from_zero.py"):
            lines = [f"{options} --out {scratch / name}\n" for name in names for made_by, options in [program_of(name)] if made_by == script]
            done = run(sys.executable, folder / script, "--batch", env={**environment, "TIDEMARK_PLACEMENT": placement}, input="".join(lines))
            check(done.returncode == 0, f"{script}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        for name in names:
            held = run(binary, "compare", "--events", folder / f"{name}.json.gz", scratch / name)
            equal = re.search(r"events: all (\d+) equal in action, size and stream\n", held.stdout)
            places = re.search(r"(\d+) of (\d+) allocations in the same place", held.stdout)
            print(f"{placement}, {name}: {held.stdout.splitlines()[-1] if held.stdout else held.stderr}; {places[0] if places else ''}")
            check(held.returncode == 0 and equal, f"{name} under {placement}:\n{held.stdout}{held.stderr}")
            if placement == PLACED[name.split("_")[0]]:
                check(places and places[1] == places[2], f"{name} under {placement}: {places[0] if places else held.stderr}")
                events += int(equal[1]) if equal else 0
                placed += int(places[1]) if places else 0
            if "from_zero" in name:
                again = run(binary, "snapshot", "replay", scratch / name)
                blocks = re.search(r"(\d+) of (\d+) allocations at the recorded address", again.stdout)
                check(again.returncode == 0 and blocks and blocks[1] == blocks[2], f"{name} replayed: {again.stdout}{again.stderr}")
            if placement.startswith("wsl2"):
                with gzip.open(folder / f"{name}.json.gz") as recorded, open(scratch / name, "rb") as here:
                    same = distances(json.load(recorded)["segments_at_end"], "size") == distances(pickle.load(here)["segments"], "total_size")
                check(same, f"{name} under {placement}: a segment lies at another distance from the lowest one")
    check(events == EVENTS, f"{events} events, not {EVENTS}")
    print(f"{events} events of {len(recordings)} recordings equal in action, size and stream, {placed} allocations in the recorded place")


def test(scratch):
    binary, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    recordings = sorted(folder.glob("*.json.gz"))
    check(len(recordings) == 17, f"{len(recordings)} recordings in {folder.name}, not 17")
    if sys.argv[3] == "replay":
        replays(binary, recordings)
        bad_input(binary, [r for r in recordings if r.name.startswith("linux")], scratch)
    elif sys.argv[3] == "own":
        own(binary, folder, sys.argv[4], scratch)
    elif sys.argv[3] == "programs":
        programs(binary, folder, sys.argv[4], scratch)
    elif sys.argv[3] == "asked":
        asked(binary, folder, sys.argv[4], scratch)
    elif sys.argv[3] == "ranks":
        ranks(binary, folder, sys.argv[4], scratch)
    else:
        step(binary, folder, [r for r in recordings if r.name.split("_")[0] in PLACED], sys.argv[4], scratch)


if __name__ == "__main__":
    in_scratch(test, "as recorded")
