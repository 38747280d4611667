"""What a large file costs: for every kind of file that tidemark reads, a valid one is made, as its writer makes it, and each command that takes it may use
4 bytes of memory for each byte of it more than it uses for a small file of that kind, and names the file on stderr where it takes more than some seconds.
A file that is packed (gzip, a record's entries, values that report.json shares) counts with what it is unpacked."""
import gzip
import json
import math
import pathlib
import pickle
import random
import sqlite3
import struct
import subprocess
import sys

import pytest
from command import BINARY, ROOT, environment, seed
from hostile_test import leb

CORPUS = ROOT / "harness/cli/testing/corpus"
SEED = seed()
ARENAS = 1 << 20  # bytes that two runs over one file differ by, at any size: where the heap grows in steps, and pages of libraries that one run touched (0.6 MB seen)
TOLD = 3  # seconds of a processor after which a large file is named (harness/record/budget.cpp)


# Starts a command and writes down what it used: this interpreter is small, and a process has at least the memory of the one that started it.
SMALL = """import os, sys
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as out:
    print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, file=out)
"""


def spent(*words):
    """(exit code, stderr, CPU seconds, bytes at the peak) of a command. PyTorch's allocator, which explain asks in a process of its own, is not among it."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", SMALL, "spent", BINARY, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(TIDEMARK_NO_SCENARIOS="not asked"), check=True)
    code, seconds, peak = pathlib.Path("spent").read_text().split()
    return int(code), done.stderr, float(seconds), int(peak)


def allocator_events(drawn, number, sites):
    """Events as PyTorch records them: at most 5,000 blocks live at a time; `sites` stacks of up to 30 frames, each event with a list of its own."""
    frames = [{"name": f"f{i}", "filename": f"/app/part{i % 90}.py", "line": i} for i in range(500)]
    stacks = [drawn.choices(frames, k=drawn.randint(1, 30)) for _ in range(sites)]
    live, freed, base = {}, None, 0x7F0000000000
    for i in range(number):
        event = {"stream": 0, "time_us": 1_700_000_000_000_000 + 7 * i, "frames": list(drawn.choice(stacks)) if stacks else []}
        place = base + 512 * drawn.randrange(5000)
        if freed:
            yield {"action": "free_completed", "addr": freed[0], "size": freed[1], **event}
            freed = None
        elif place in live:
            freed = place, live.pop(place)
            yield {"action": "free_requested", "addr": freed[0], "size": freed[1], **event}
        else:
            live[place] = 512 * drawn.randint(1, 999)
            yield {"action": "alloc", "addr": place, "size": live[place], **event}
    for place, size in [freed] if freed else []:
        yield {"action": "free_completed", "addr": place, "size": size, **event}
    for place, size in live.items():  # the snapshot has no segments: nothing is there at its end
        for action in ("free_requested", "free_completed"):
            yield {"action": action, "addr": place, "size": size, **event}


def snapshot(drawn, size, sites=0, each=52):
    return {"segments": [], "device_traces": [list(allocator_events(drawn, size // each, sites))]}


def bare_pickle(drawn, size):
    return pickle.dumps(snapshot(drawn, size), 4)


def pickle_with_stacks(drawn, size):
    return pickle.dumps(snapshot(drawn, size, 300, 100), 2)


def snapshot_text(drawn, size):
    return json.dumps(snapshot(drawn, size, 40, 1000)).encode()


def live_pickle(drawn, size):
    """Every block is alive at the end, with its place in a segment."""
    number, base = size // 110, 0x7F0000000000
    blocks = [{"address": base + 512 * i, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": []} for i in range(number)]
    events = [{"action": "alloc", "addr": base + 512 * i, "size": 500, "stream": 0, "time_us": i, "frames": []} for i in range(number)]
    segment = {"device": 0, "address": base, "total_size": 512 * number, "stream": 0, "segment_type": "large", "frames": [], "blocks": blocks}
    return pickle.dumps({"segments": [segment], "device_traces": [events]}, 4)


def recording(drawn, size):
    events = list(allocator_events(drawn, size // 26, 0))
    actions = ["alloc", "free_requested", "free_completed"]
    return json.dumps({"schema": "tidemark/recording", "segments_at_end": [], "actions": actions, "events": {
        "action": [actions.index(e["action"]) for e in events], "size": [e["size"] for e in events], "stream": [0] * len(events), "address": [e["addr"] - 0x7F0000000000 for e in events]}}).encode()


def record(drawn, size):
    """Of the recorder: entries that are bytes where a pickle has some tens."""
    out, before = bytearray((CORPUS / "record/of.record").read_bytes()[:65536]), 0
    entries = bytearray(b"\x0b\x01\x00")  # of a step
    while len(entries) < size:
        for event in allocator_events(drawn, 5000, 0):
            place = event["addr"] - 0x7F0000000000
            action = ["alloc", "free_requested", "free_completed"].index(event["action"])
            entries += b"\x05" + leb(action) + b"\0" + zigzag(place - before) + leb(event["size"]) + b"\0\0\0\0" + zigzag(7)
            before = place
    struct.pack_into("<Q", out, 128, len(entries))  # of the first moment: format.h
    return bytes(out + entries)


def zigzag(number):
    return leb(number * 2 if number >= 0 else -number * 2 - 1)


def of_corpus(name, change):
    """A report of the corpus with many of its trials, each with a name of its own."""
    def make(drawn, size):
        report = json.loads((CORPUS / name).read_text())
        trials, text = report["trials"], len(json.dumps(report["trials"]))
        report["trials"] = [{**json.loads(json.dumps(trial)), "seed": i * len(trials) + j} for i in range(max(1, size // text)) for j, trial in enumerate(trials)]
        change(report, len(report["trials"]) // len(trials))
        return json.dumps(report).encode()
    return make


def no_files(report, many):
    for key in ("passed", "failed", "skipped"):
        report["summary"][key] *= many
    report["run"].pop("ended", None)
    for trial in report["trials"]:
        for variant in trial["variants"]:
            if isinstance(variant, dict):
                variant.pop("files", None)


def program(drawn, size):
    report = json.loads((CORPUS / "report/program.json").read_text())
    of = report["trials"][0]["program"]
    rank = of["ranks"][0]
    of["ranks"] = [{**rank, "rank": i, "pid": 1000 + i} for i in range(max(1, size // len(json.dumps(rank))))]
    return json.dumps(report).encode()


def benchmarks(drawn, size):
    whole = json.loads((CORPUS / "benchmarks/three.json").read_text())
    row = whole["benchmarks"][0]
    whole["benchmarks"] = [{**row, "name": f"case{i}", "run_name": f"case{i}", "real_time": drawn.random()} for i in range(size // len(json.dumps(row)))]
    return json.dumps(whole).encode()


def losses(line, head=""):
    def make(drawn, size):
        return (head + "".join(line.format(step=i, loss=drawn.random() * 3) for i in range(size // len(line.format(step=10**6, loss=math.pi))))).encode()
    return make


def losses_list(drawn, size):
    return json.dumps([{"step": i, "loss": drawn.random()} for i in range(size // 46)]).encode()


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc_of(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC = [crc_of(byte) for byte in range(256)]


def tensorboard(drawn, size):
    out = bytearray()
    for step in range(size // 52):
        value = b"\x0a\x04loss\x15" + struct.pack("<f", drawn.random())
        summary = b"\x0a" + leb(len(value)) + value
        event = b"\x09" + struct.pack("<d", 1.5e9 + step) + b"\x10" + leb(step) + b"\x2a" + leb(len(summary)) + summary
        head = struct.pack("<Q", len(event))
        out += head + struct.pack("<I", masked(head)) + event + struct.pack("<I", masked(event))
    return bytes(out)


def history(drawn, size):
    place = pathlib.Path("made.sqlite")
    place.write_bytes((CORPUS / "history/of.sqlite").read_bytes())
    with sqlite3.connect(place) as database:
        run = database.execute("SELECT * FROM run").fetchone()
        runs = max(2, size // 116 // 45)
        database.executemany(f"INSERT INTO run VALUES ({','.join('?' * len(run))})", [(i, f"{i:x}", f"2026-01-02T03:04:{i:05}Z", *run[3:]) for i in range(2, runs)])
        series = [key for key, in database.execute("SELECT key FROM series")]
        database.executemany("INSERT INTO point VALUES (?, ?, ?)", ((key, i, drawn.random()) for i in range(2, runs) for key in series))
    database.close()
    return place.read_bytes()


def numbers(drawn, size):
    whole = (CORPUS / "numbers/of.safetensors").read_bytes()
    length, = struct.unpack_from("<Q", whole)
    header = json.loads(whole[8:8 + length])
    tensors = {name: one for name, one in header.items() if name == "__metadata__"}
    each, at = 4096, 0
    tensors["loss"] = {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}
    for i in range(size // (4 * each)):
        at = 24 + 4 * each * i
        tensors[f"gradients/w{i}[0:{each}]"] = {"dtype": "F32", "shape": [each], "data_offsets": [at, at + 4 * each]}
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + drawn.randbytes(24 + 4 * each * (size // (4 * each)))


def recorded_events(drawn, size):
    whole = json.loads((CORPUS / "events/recording.json").read_text())
    trace = json.dumps(whole["traces"][0])
    whole["traces"] = [{**json.loads(trace), "seed": i} for i in range(max(1, size // len(trace)))]
    return json.dumps(whole).encode()


def lines_of_tests(drawn, size):
    lines = (CORPUS / "tests/tests.jsonl").read_bytes().splitlines(keepends=True)
    return lines[0] * max(1, size // len(lines[0])) + lines[-1]


def job(drawn, size):
    whole = json.loads((CORPUS / "job/job").read_text())
    whole["report"] = json.loads(program(drawn, size))
    return json.dumps(whole).encode()


LOG = "[rank0]:2026-01-02 03:04:05 - root - INFO - step: {step:2}  loss: {loss:7.4f}  grad_norm: 1.2  memory: 8.12GiB(10.2%)  tps: 1,000\n"
MEGATRON = " iteration {step:8}/ 1000000 | consumed samples: 12 | elapsed time per iteration (ms): 5.0 | lm loss: {loss:.6E} | grad norm: 1.000 |\n"
# kind: maker, its place, the commands that read it there
KINDS = {
    "bare_pickle": (bare_pickle, "a.pickle", "snapshot show a.pickle", "snapshot convert a.pickle --to perfetto --out o --force", "snapshot convert a.pickle --to json --out o --force", "compare a.pickle a.pickle", "snapshot show a.pickle --format html --out o --force", "explain a.pickle --report page"),
    "pickle_with_stacks": (pickle_with_stacks, "a.pickle", "snapshot show a.pickle", "snapshot convert a.pickle --to pickle --out o --force", "snapshot show a.pickle --format html --out o --force", "explain a.pickle --report page"),
    "live_pickle": (live_pickle, "a.pickle", "snapshot show a.pickle", "snapshot convert a.pickle --to perfetto --out o --force", "explain a.pickle"),
    "snapshot_text": (snapshot_text, "a.json", "snapshot show a.json"),
    "snapshot_gzip": (lambda drawn, size: gzip.compress(snapshot_text(drawn, size), 1), "a.json.gz", "snapshot show a.json.gz"),
    "recording": (recording, "a.json", "snapshot show a.json"),
    "record": (record, "a.record", "snapshot show a.record", "snapshot convert a.record --to pickle --out o --force"),
    "report_of_program": (program, "report.json", "report .", "report . --json", "compare . ."),
    "report_of_scenarios": (of_corpus("report/scenario.json", no_files), "report.json", "report .", "compare . ."),
    "benchmarks": (benchmarks, "a.json", "compare a.json a.json"),
    "text": (losses("{step} {loss}\n"), "a.txt", "compare losses a.txt a.txt", "compare losses a.txt a.txt --format html --out o --force"),
    "csv": (losses("{step},{loss},{loss},5e-05,12\n", "step,loss,train/loss,lr,tokens\n"), "a.csv", "compare losses a.csv a.csv"),
    "json": (losses_list, "a.json", "compare losses a.json a.json"),
    "json_lines": (losses('{{"step": {step}, "loss": {loss}}}\n'), "a.jsonl", "compare losses a.jsonl a.jsonl"),
    "torchtitan": (losses(LOG), "a.log", "compare losses a.log a.log"),
    "megatron": (losses(MEGATRON), "a.log", "compare losses a.log a.log"),
    "tensorboard": (tensorboard, "events.out.tfevents.1.a", "compare losses events.out.tfevents.1.a events.out.tfevents.1.a"),
    "history": (history, "history.sqlite", "history . --metric *", "history . --last-good"),
    "numbers": (numbers, "numbers/a.safetensors", "compare --numbers . ."),
    "events": (recorded_events, "a.json", "compare --events a.json a.json"),
    "tests": (lines_of_tests, "tests.jsonl", "report ."),
    "job": (job, "ranks/job", "report ."),
}


def unpacked(content, place):
    """The bytes that count: of a record those of its pickle, of a report those of its JSON with every value in its place."""
    if content[:7] == b"mrecord":
        assert spent("snapshot", "convert", "a.record", "--to", "pickle", "--out", "as.pickle", "--force")[0] == 0
        return pathlib.Path("as.pickle").stat().st_size
    if place == "report.json":
        whole = subprocess.run([BINARY, "report", ".", "--json"], stdout=subprocess.PIPE, env=environment(), check=True).stdout
        return max(len(content), len(json.dumps(json.loads(whole), separators=(",", ":"))))
    return len(gzip.decompress(content)) if content[:2] == b"\x1f\x8b" else len(content)


def costs(kind, size, drawn):
    """Holds a file of about this size against the rule in each of its commands."""
    make, place, *commands = KINDS[kind]
    pathlib.Path(place).parent.mkdir(exist_ok=True)
    sizes, used = [], []
    for about in (4096, size):
        content = make(drawn, about)
        for words in commands:
            for old in ("report.json", "tests.jsonl"):
                pathlib.Path(old).unlink(missing_ok=True)
            pathlib.Path(place).write_bytes(content)
            code, err, seconds, peak = spent(*words.split())
            assert code in (0, 1, 4) or (kind == "job" and b"has begun its program" in err), (kind, words, code, err[-500:])
            used.append((words, peak, seconds, err))
        sizes.append(unpacked(content, place))
    faults = []
    for (words, least, *_), (_, peak, seconds, err) in zip(used[:len(commands)], used[len(commands):], strict=True):
        files = 2 if words.startswith("compare") else 1
        factor = max(0, peak - least - ARENAS) / files / (sizes[1] - sizes[0])
        print(f"{kind}: {words}: {sizes[1] >> 20} MiB, {seconds:.1f} s, {(peak - least) >> 20} MiB more: {factor:.2f}")
        if factor > 4 or (seconds > TOLD + 1 and b": reading " not in err):
            faults.append((words, round(factor, 2), seconds, err))
    assert not faults, faults


@pytest.mark.parametrize("kind", KINDS)
def test_kind(folder, kind):
    costs(kind, 1_300_000, random.Random(SEED))


@pytest.mark.parametrize("kind", KINDS)
# night: makes files of tens of MiB of every kind, of which large_kind holds smaller ones by day
def test_larger(folder, kind):
    drawn = random.Random(f"{SEED} {kind}")
    costs(kind, drawn.randint(8_000_000, 60_000_000), drawn)
