"""Snapshots as PyTorch's Python writes them are read; what tidemark writes is what Python's pickle and PyTorch's own torch/cuda/_memory_viz.py,
which is plain Python, read."""
import importlib.util
import io
import json
import os
import pickle
import pickletools
import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "harness" / "cli"))
from command import read, run  # noqa: E402

VIZ = Path(os.environ.get("TIDEMARK_DEPS", ROOT / ".deps"), "torch/cuda/_memory_viz.py")


def made_up_snapshot() -> dict:
    """Two devices, shared frames, three thousand events, a free that waits; keys that only newer PyTorch has."""
    rng = random.Random(3)
    frames = [[{"filename": "/srv/example/train.py", "line": line, "name": f"layer_{line}"},
               {"filename": "/site/torch/nn/modules/module.py", "line": 1, "name": "__call__"}] for line in range(5)]
    segments, traces = [], []
    for device in range(2):
        base, events, live, time = 0x7F0000000000 + (device << 40), [], {}, 1000
        size = 2048 * 64
        events.append({"action": "segment_alloc", "addr": base, "size": size, "stream": 0, "time_us": time, "frames": []})
        for _ in range(1500):
            time += 3
            slot = rng.randrange(64)
            addr = base + slot * 2048
            common = {"addr": addr, "stream": 0, "time_us": time, "compile_context": "N/A", "user_metadata": ""}
            if addr in live:
                one = live.pop(addr)
                events.append({"action": "free_requested", "size": one[0], "frames": one[1], **common})
                events.append({"action": "free_completed", "size": one[0], "frames": one[1], **common})
            else:
                live[addr] = (rng.randrange(1, 2049), rng.choice(frames))
                events.append({"action": "alloc", "size": live[addr][0], "frames": live[addr][1], **common})
        waiting = min(live)
        events.append({"action": "free_requested", "addr": waiting, "size": live[waiting][0], "stream": 0,
                       "time_us": time + 1, "frames": []})
        events.append({"action": "oom", "device_free": 10, "size": 1 << 33, "stream": 0, "time_us": time + 2, "frames": []})
        events.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": time + 3, "frames": []})
        blocks = []
        for slot in range(64):
            addr = base + slot * 2048
            requested, stack = live.get(addr, (0, []))
            state = "inactive" if addr not in live else "active_pending_free" if addr == waiting else "active_allocated"
            blocks.append({"address": addr, "size": 2048, "requested_size": requested, "state": state, "frames": stack})
        segments.append({"device": device, "address": base, "total_size": size, "stream": 0, "segment_type": "large",
                         "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
                         "allocated_size": sum(b["size"] for b in blocks if b["state"] == "active_allocated"),
                         "active_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),
                         "requested_size": sum(b["requested_size"] for b in blocks)})
        traces.append(events)
    return {"segments": segments, "device_traces": traces, "external_annotations": [],
            "allocator_settings": {"PYTORCH_ALLOC_CONF": "", "garbage_collection_threshold": 0.5, "pinned": None}}


def peak_of(events: list) -> int:
    active = highest = 0
    for event in events:
        active += event["size"] * {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
        highest = max(highest, active)
    return highest


def known(value: dict) -> dict:
    """What tidemark keeps of a segment or an event."""
    kept = ("device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type",
            "is_expandable", "frames", "blocks", "size", "state", "action", "addr", "device_free", "time_us")
    return {key: value[key] for key in kept if key in value}


def same(a: dict, b: dict) -> bool:
    return ([known(s) for s in a["segments"]] == [known(s) for s in b["segments"]] and
            [[known(e) for e in trace] for trace in a["device_traces"]] == [[known(e) for e in trace] for trace in b["device_traces"]])


def check_opcodes(data: bytes, protocol: int) -> None:
    """Every list in batches of at most 1,000, every address as LONG1: a stack machine that counts."""
    depth, marks, memo, text, wrong = 0, [], [], None, ""
    for op, arg, _ in pickletools.genops(data):
        if op.name == "PROTO" and arg != protocol:
            wrong = f"protocol {arg}"
        if text in ("addr", "address") and op.name not in ("MEMOIZE", "BINPUT", "LONG_BINPUT", "LONG1"):
            wrong = f"an address as {op.name}"
        if op.name == "MARK":
            marks.append(depth)
        elif op.name in ("APPENDS", "SETITEMS"):
            if op.name == "APPENDS" and depth - marks[-1] > 1000:
                wrong = f"{depth - marks[-1]} items in one APPENDS"
            depth = marks.pop()
        elif op.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            memo.append(text)
            continue
        else:
            depth += len(op.stack_after) - len(op.stack_before)
        text = arg if "UNICODE" in op.name else memo[arg] if op.name in ("BINGET", "LONG_BINGET") else None
    assert not wrong, f"protocol {protocol}: {wrong}"


@pytest.fixture
def viz():
    if not VIZ.exists():
        pytest.skip(f"no {VIZ} (an older ci/setup unpacked this wheel)")
    spec = importlib.util.spec_from_file_location("_memory_viz", VIZ)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# night: PyTorch's viewer on a run; viz_test reads what is made up by day
def test_run(viz, tmp_path):
    """The snapshots that a run leaves behind: PyTorch's reader loads them, and they say what report.json says."""
    folder = tmp_path / "run"
    done = run("run", "fsdp_prefetch/record_stream", "fsdp_prefetch/stash", "--ranks", 2, "--mode", "shapes", "--schedule", "lagging", "--size", "smoke",
               "--details", "all", "--out", folder, "--history", "off")
    assert done.returncode == 0, f"run: {done.returncode} {done.stderr}"
    report = read(folder)
    for variant in report["trials"][0]["variants"]:
        for rank in variant["ranks"]:
            what = f"{variant['name']} rank {rank['rank']}"
            files = list(folder.glob(f"snapshot/fsdp_prefetch/*/r2/shapes/lagging/{variant['name']}_rank{rank['rank']}.record"))
            assert len(files) == 1, f"{what}: {files}"
            out = tmp_path / f"{variant['name']}{rank['rank']}.pickle"
            assert run("snapshot", "convert", files[0], "--to", "pickle", "--out", out).returncode == 0
            loaded = pickle.loads(out.read_bytes())
            assert "Active Memory Timeline" in viz.trace_plot(loaded), f"{what}: trace_plot"
            assert "segments: " in viz.segsum(loaded) and f"{len(loaded['device_traces'][0])} entries" in viz.trace(loaded), f"{what}: segsum and trace"
            segments, trace = loaded["segments"], loaded["device_traces"][0]
            assert sum(s["total_size"] for s in segments) == rank["phases"][-1]["reserved"]["end"], f"{what}: segments"
            assert all(sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in segments), f"{what}: blocks fill segments"
            assert sum(s["active_size"] for s in segments) == rank["phases"][-1]["active"]["end"], f"{what}: active at the end"
            # From the end back to the highest moment of active memory, in bytes as requested.
            active = sum(b["requested_size"] for s in segments for b in s["blocks"] if b["state"] != "inactive")
            highest = active
            for event in reversed(trace):
                active -= event["size"] * {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
                highest = max(highest, active)
            assert highest == max(p["requested"]["peak"] for step in rank["steps"] for p in step["phases"]), f"{what}: the peak of active, {highest}"
            # Every product's output names it; a storage that is resized in place (unsharding) is no operator's.
            frames = [e["frames"][0]["name"] for e in trace if e["action"] == "alloc" and e["frames"]]
            assert sum(name.startswith("aten::mm") for name in frames) >= 3 * 6, f"{what}: operators {frames}"
            assert all(frames), f"{what}: a frame without a name"
            shown = run("snapshot", "show", files[0])
            assert shown.returncode == 0 and "aten::" in shown.stdout, f"{what}: show {shown.stderr}"


def test_made_up(viz, tmp_path):
    original = made_up_snapshot()
    peak = f"{peak_of(original['device_traces'][0]):,}"
    for protocol in range(2, 6):
        data = io.BytesIO()
        (pickle._Pickler if protocol == 3 else pickle.Pickler)(data, protocol).dump(original)
        (tmp_path / f"in{protocol}").write_bytes(data.getvalue())
    for protocol in (2, 5):
        done = run("snapshot", "show", tmp_path / f"in{protocol}")
        assert done.returncode == 0, f"show protocol {protocol}: {done.stderr}"
        assert f"active {peak}," in done.stdout, f"show protocol {protocol}: peak {peak} in\n{done.stdout[:500]}"
        assert "pending frees at the end: 1," in done.stdout, "show: the free that waits"
    compared = run("compare", tmp_path / "in3", tmp_path / "in4")
    assert compared.returncode == 0 and "0 sites differ" in compared.stdout, f"the same compared: {compared.stdout}{compared.stderr}"

    for protocol in (2, 3, 4):
        out = tmp_path / f"out{protocol}.pickle"
        done = run("snapshot", "convert", tmp_path / "in4", "--to", "pickle", "--protocol", protocol, "--out", out)
        assert done.returncode == 0, f"convert {protocol}: {done.stderr}"
        check_opcodes(out.read_bytes(), protocol)
        loaded = pickle.loads(out.read_bytes())
        assert same(original, loaded), f"protocol {protocol}: the same segments and events"
        assert loaded["segments"][0]["segment_pool_id"] == (0, 0), "the pool stays a tuple"
        assert viz.segsum(loaded) == viz.segsum(original), "segsum of PyTorch's reader"
        assert viz.trace(loaded) == viz.trace(original), "trace of PyTorch's reader"
        assert "Active Memory Timeline" in viz.trace_plot(loaded), "trace_plot of PyTorch's reader"
        assert len(viz.filter_alloc_free_pairs(loaded)["device_traces"][0]) > 0, "filter_alloc_free_pairs of PyTorch's reader"

    done = run("snapshot", "convert", tmp_path / "in4", "--to", "json", "--out", tmp_path / "out.json")
    assert done.returncode == 0 and same(original, json.loads((tmp_path / "out.json").read_text())), "JSON: the same"
    shown, original_shown = (run("snapshot", "show", tmp_path / name).stdout.splitlines()[3:] for name in ("out.json", "in4"))
    assert shown == original_shown, "show of the JSON"
    trace = json.loads(run("snapshot", "convert", tmp_path / "in4", "--to", "perfetto").stdout)
    assert sum(e["ph"] == "C" for e in trace["traceEvents"]) == 3 * sum(map(len, original["device_traces"])), "Perfetto: counters"
    assert run("snapshot", "convert", tmp_path / "in4", "--to", "json", "--out", tmp_path / "out.json").returncode == 2, "nothing is overwritten"


class Evil:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_evil(tmp_path):
    """A pickle that would run code is refused."""
    marker = tmp_path / "was-run"
    (tmp_path / "evil").write_bytes(pickle.dumps({"segments": Evil(marker)}))
    done = run("snapshot", "show", tmp_path / "evil")
    assert done.returncode == 2 and "would run code" in done.stderr and done.stderr.count("\n") == 1, f"evil: {done.stderr}"
    assert not marker.exists(), "evil: nothing was run"
    done = run("snapshot", "convert", tmp_path / "evil", "--to", "json", "--out", tmp_path / "nothing.json")
    assert done.returncode == 2 and not (tmp_path / "nothing.json").exists(), "evil: nothing was written"
