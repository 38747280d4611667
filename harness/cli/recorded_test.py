"""Holds the virtual platform against the recordings of real GPUs in reports/measured/*.json.gz. TORCH_SITE is the folder with torch."""
import collections
import gzip
import json
import lzma
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import BINARY, ROOT

FOLDER = ROOT / "reports/measured"
RECORDINGS = sorted(FOLDER.glob("*.json.gz"))
SITE = os.environ.get("TORCH_SITE", str(ROOT / ".deps/python"))
EVENTS = 118611  # of the recordings with a program in reports/measured
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


# holds: README.md, How close it is
def test_replay():
    """Every recording is replayed: the same segments, and every allocation where one segment layout explains it."""
    assert len(RECORDINGS) == 17
    events = 0
    for recording in RECORDINGS:
        done = run(BINARY, "snapshot", "replay", recording)
        print(done.stdout + done.stderr, end="")
        segments = re.search(r"segments: (none came or went, as recorded|all ([\d,]+) segment events? as recorded)", done.stdout)
        blocks = re.search(r"(\d+) of (\d+) allocations at the recorded address", done.stdout)
        assert done.returncode == 0 and segments and blocks, f"{recording.name}: exit {done.returncode}"
        if recording.name.split(".")[0] not in AMBIGUOUS:
            assert blocks[1] == blocks[2], f"{recording.name}: {blocks[0]}"
        events += int((segments[2] or "0").replace(",", ""))
    print(f"{len(RECORDINGS)} recordings, {events} segment events")


# holds: reports/measured/README.md, Your own GPU
def test_bad_input(tmp_path):
    recording = next(one for one in RECORDINGS if one.name.startswith("linux"))
    with gzip.open(recording) as packed:
        data = json.load(packed)
    event = {"action": "alloc", "addr": 0, "size": 512, "stream": 0}
    segment = {"address": 0, "total_size": 2 << 20, "stream": 0, "segment_type": "small", "blocks": [{"size": 2 << 20, "state": "inactive"}]}
    files = {
        "text": (b"hello\n", "f: "),
        "cut": (pickle.dumps({"segments": [], "device_traces": []})[:-5], "f: "),
        "traceless": (pickle.dumps({"segments": [segment], "device_traces": []}), "has no trace: record with"),
        "devices": (pickle.dumps({"segments": [segment], "device_traces": [[event], [event]]}), "has the traces of devices 0 and 1: choose one with --device"),
        "gzip": (recording.read_bytes()[:-9], "damaged or cut off gzip"),
        "another": (pickle.dumps({"segments": [segment], "device_traces": [[event]]}), "allocates a block that is not there afterwards"),
        "unusual": (json.dumps({**data, "segments_at_end": [{"address": 0, "size": 3 << 20, "type": "large", "stream": 0,
                                                             "blocks": [[3 << 20, "inactive", 0]]}],
                                "events": {"action": [data["actions"].index("free_requested")], "size": [1], "stream": [0], "address": [0]}}).encode(),
                    "has a large segment of 3145728 bytes, which PyTorch does not make"),
        "missing": (None, "cannot be read"),
    }
    for name, (contents, expected) in files.items():
        path = tmp_path / name
        if contents is not None:
            path.write_bytes(contents)
        for words in (["snapshot", "replay", path], ["compare", "--events", recording, path]):
            if words[0] == "compare" and name in ("another", "unusual"):
                continue  # a trace can be compared, whatever lay there before it
            done = run(BINARY, *words)
            lines = done.stderr.splitlines()
            assert done.returncode == 2 and len(lines) == 1 and expected.replace("f: ", f"{path}: ") in lines[0], f"{words}: exit {done.returncode}: {done.stderr}"
    # One that begins in the middle is replayed: the segments before it follow from those at its end.
    cut = {**data, "events": {key: column[len(column) // 2:] for key, column in data["events"].items()}}
    (tmp_path / "middle").write_text(json.dumps(cut))
    done = run(BINARY, "snapshot", "replay", tmp_path / "middle")
    assert done.returncode == 0 and "segment events as recorded" in done.stdout, f"the second half: {done.stdout}{done.stderr}"
    # A recording whose allocator did something else is told apart.
    sizes = data["events"]["size"]
    place = next(i for i, action in enumerate(data["events"]["action"]) if data["actions"][action] == "segment_alloc")
    sizes[place] += 2 << 20
    for one in data["segments_at_end"]:
        if one["address"] == data["events"]["address"][place]:
            one["size"] += 2 << 20
            one["blocks"].append([2 << 20, "inactive", 0])
    (tmp_path / "other").write_text(json.dumps(data))
    done = run(BINARY, "snapshot", "replay", tmp_path / "other")
    assert done.returncode == 1 and "recorded segment_alloc" in done.stdout, f"another segment: {done.returncode} {done.stdout}{done.stderr}"


def platform():
    """The environment of a program on the platform, with the torch of TORCH_SITE."""
    environment = {**os.environ, "PYTHONPATH": SITE, "PYTHONDONTWRITEBYTECODE": "1", "TIDEMARK_GPU": "a100-80g", "TIDEMARK_UNKNOWN": "nan",
                   "LD_PRELOAD": ":".join(sorted(map(str, (Path(BINARY).resolve().parent / "virtual").glob("*.so.*"))))}
    version = run(sys.executable, "-c", "import torch; print(torch.__version__)", env=environment)
    if version.returncode != 0:
        pytest.fail(f"{sys.executable} ({sys.version.split()[0]}) cannot import torch from {SITE}, which is built for Python 3.11: "
                    + version.stderr.strip().splitlines()[-1])
    print(f"torch {version.stdout.strip()}, Python {sys.version.split()[0]}")
    return environment


# night: replays forty programs; measured_replay replays recordings by day
def test_random_programs(tmp_path):
    """Snapshots of programs that run on the platform (harness/memory/testing/random_program.py) are replayed: all segments and addresses. In
    one with PyTorch's default stacks, `snapshot show` names the lines of the program and the nodes of autograd."""
    runs = {  # its name: settings, words, devices
        "from_zero": ("none", "zero,streams,empty", 1),
        "middle": ("none", "streams,empty", 1),
        "expandable": ("expandable_segments:True", "zero,empty", 1),
        "expandable_middle": ("expandable_segments:True", "streams,empty", 1),
        "pools": ("none", "streams,pools,empty", 1),
        "expandable_pools": ("expandable_segments:True", "pools,empty", 1),
        "split": ("max_split_size_mb:25", "zero,empty", 1),
        "devices": ("none", "zero,empty", 2),
    }
    environment = platform()
    total = [0, 0]
    for devices in (1, 2):
        lines = "".join(f"{tmp_path / name} 1 {settings} {words}\n" for name, (settings, words, count) in runs.items() if count == devices)
        done = run(sys.executable, ROOT / "harness/memory/testing/random_program.py", env={**environment, "TIDEMARK_DEVICES": str(devices)}, input=lines)
        assert done.returncode == 0, f"random_program.py: exit {done.returncode}: {done.stderr.strip()[-500:]}"
    for name, (_, _, devices) in runs.items():
        for device in range(devices):
            done = run(BINARY, "snapshot", "replay", tmp_path / name, *(["--device", device] if devices > 1 else []))
            blocks = re.search(r"(\d+) of (\d+) allocations at the recorded address", done.stdout)
            segments = re.search(r"all (\d+) segment events as recorded", done.stdout)
            assert done.returncode == 0 and segments and blocks and blocks[1] == blocks[2], f"{name}: exit {done.returncode}: {done.stdout}{done.stderr}"
            total = [total[0] + int(segments[1]), total[1] + int(blocks[1])]
    done = run(BINARY, "snapshot", "replay", tmp_path / "devices", "--device", 2)
    assert done.returncode == 2 and "has no trace of device 2, but of devices 0 and 1" in done.stderr, f"another device: {done.stderr}"
    done = run(sys.executable, FOLDER / "from_zero.py", "--program", "attention", "--frames", "--out", tmp_path / "frames", env=environment)
    shown = run(BINARY, "snapshot", "show", tmp_path / "frames").stdout
    assert "softened from_zero.py:" in shown and ": DivBackward0" in shown and ".cpp:" not in shown, f"PyTorch's default stacks: {done.stderr}{shown}"
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


def on_h100(environment, *words):
    """Runs a program of reports/measured by exec, which brings the platform, as an H100."""
    done = run(BINARY, "exec", "--gpu", "h100-80g", *words,
               env={key: value for key, value in environment.items() if not key.startswith("TIDEMARK_") and key != "LD_PRELOAD"})
    assert done.returncode == 0, f"{words}: exit {done.returncode}: {done.stdout[-1500:]}{done.stderr.strip()[-500:]}"


# night: two ranks of a recorded program; measured_replay has the recordings of one rank by day
def test_ranks(tmp_path):
    """two_ranks.py, run by tidemark exec, has the figures of printed/two_ranks.json to the byte."""
    on_h100(platform(), "--devices", 2, "--mode", "shapes", "--", sys.executable, FOLDER / "two_ranks.py", tmp_path / "made")
    printed = json.loads((FOLDER / "printed" / "two_ranks.json").read_text())
    figures = 0
    for mode in ("full", "sharded"):
        for rank, moments in enumerate(printed[mode]):
            made = json.loads((tmp_path / f"made.{mode}.{rank}").read_text())
            for moment, statistics in moments.items():
                for name, value in statistics.items():
                    figures += 1
                    assert made[moment][name] == value, f"{mode}, rank {rank}, {moment}, {name}: printed {value}, here {made[moment][name]}"
    assert figures == 72, f"{figures} figures, not 72"


# A program that was recorded let go late of what a stream used.
LATE = ("--schedule", "lagging")


# night: trains with the programs of all recordings; measured_replay has recordings by day, without their programs
def test_programs(tmp_path):
    """record.py, run by tidemark exec, makes the events and peaks of the recordings in h100-80g, of one GPU and of two ranks with NCCL."""
    on_h100(platform(), *LATE, "--", sys.executable, FOLDER / "record.py", "--out", tmp_path, "--jobs", 2, *PROGRAMS)
    events = 0
    for name in PROGRAMS:
        for file in sorted((FOLDER / "h100-80g").glob(f"{name}.*json.gz")):
            both = [json.loads(gzip.decompress((where / file.name).read_bytes())) for where in (file.parent, tmp_path)]
            allocated, reserved = ([[peak[n] for peak in each["source"]["peaks"]] for each in both] for n in (0, 1))
            assert allocated[0] == allocated[1], f"{file.name}: allocated at its highest {allocated}"
            comparison = run(BINARY, "compare", "--events", file, tmp_path / file.name)
            equal = re.search(r"events: all (\d+) equal", comparison.stdout) or re.search(r"without segments: all events equal", comparison.stdout)
            assert equal, f"{file.name}: {comparison.stdout}{comparison.stderr}"
            events += len(both[0]["events"]["action"])
            print(f"{file.name}: {equal[0]}; reserved {'as recorded' if reserved[0] == reserved[1] else reserved}")
    print(f"{events} events of {len(PROGRAMS)} programs")


# night: asks seven libraries for thousands of workspaces; exec_linalg_asked holds one of them by day
def test_libraries(tmp_path):
    """asked.py on the platform: of each library, as many calls ask for the same bytes as on the GPU of h100-80g/asked.jsonl.xz as are known to."""
    environment = platform()
    with lzma.open(FOLDER / "h100-80g" / "asked.jsonl.xz", "rt") as file:
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
        on_h100(environment, *LATE, "--mode", "known" if name == "recurrent" else "shapes", "--", sys.executable, FOLDER / "asked.py",
                "--out", tmp_path / name, *(["--part", "0/2"] if name == "recurrent" else []), name)
        for row in map(json.loads, (tmp_path / name).read_text().splitlines()):
            if what(row) in there:
                all_[name] += 1
                same[name] += "refused" not in row and bytes_of(row) == there[what(row)]
    for name, least in ASKED.items():
        print(f"{name}: {same[name]} of {all_[name]} calls as recorded")
        assert same[name] >= least, f"{name}: {same[name]} calls ask for what they asked for on the GPU, and not {least}"


def distances(segments, size):
    """The segments at the end: how far above the lowest one each lies, and its size."""
    lowest = min(one["address"] for one in segments)
    return sorted((one["address"] - lowest, one[size]) for one in segments)


# night: trains the recorded steps under four rules for addresses; measured_replay replays their events by day
def test_step(tmp_path):
    """The programs step.py and from_zero.py, run on the platform, make the events of the recordings, each in its place."""
    recordings = [one for one in RECORDINGS if one.name.split("_")[0] in PLACED]
    environment = platform()
    events = placed = 0
    for placement in ("linux", "wsl2", "wsl2:156,186", "wsl2:80,96"):
        names = [r.name.split(".")[0] for r in recordings]
        names = [name for name in names if PLACED[name.split("_")[0]] == placement or (placement == "linux" and "forward" not in name)]
        for script in ("step.py", "from_zero.py"):
            lines = [f"{options} --out {tmp_path / name}\n" for name in names for made_by, options in [program_of(name)] if made_by == script]
            done = run(sys.executable, FOLDER / script, "--batch", env={**environment, "TIDEMARK_PLACEMENT": placement}, input="".join(lines))
            assert done.returncode == 0, f"{script}: exit {done.returncode}: {done.stderr.strip()[-500:]}"
        for name in names:
            comparison = run(BINARY, "compare", "--events", FOLDER / f"{name}.json.gz", tmp_path / name)
            equal = re.search(r"events: all (\d+) equal in action, size and stream\n", comparison.stdout)
            places = re.search(r"(\d+) of (\d+) allocations in the same place", comparison.stdout)
            print(f"{placement}, {name}: {comparison.stdout.splitlines()[-1] if comparison.stdout else comparison.stderr}; {places[0] if places else ''}")
            assert comparison.returncode == 0 and equal, f"{name} under {placement}:\n{comparison.stdout}{comparison.stderr}"
            if placement == PLACED[name.split("_")[0]]:
                assert places and places[1] == places[2], f"{name} under {placement}: {places[0] if places else comparison.stderr}"
                events += int(equal[1])
                placed += int(places[1])
            if "from_zero" in name:
                again = run(BINARY, "snapshot", "replay", tmp_path / name)
                blocks = re.search(r"(\d+) of (\d+) allocations at the recorded address", again.stdout)
                assert again.returncode == 0 and blocks and blocks[1] == blocks[2], f"{name} replayed: {again.stdout}{again.stderr}"
            if placement.startswith("wsl2"):
                with gzip.open(FOLDER / f"{name}.json.gz") as recorded, open(tmp_path / name, "rb") as here:
                    same = distances(json.load(recorded)["segments_at_end"], "size") == distances(pickle.load(here)["segments"], "total_size")
                assert same, f"{name} under {placement}: a segment lies at another distance from the lowest one"
    assert events == EVENTS, f"{events} events, not {EVENTS}"
    print(f"{events} events of {len(recordings)} recordings equal in action, size and stream, {placed} allocations in the recorded place")
