"""GPUs that hold just less than one rank of a pipeline needs at its peak. That variant fails with the
allocator's own message and leaves a snapshot of the moment; the other variants and trials go on."""
import json
import pickle
from pathlib import Path

from command import read
from command import run as run_command

GRANULE = 2 << 20
RUN = ["run", "zero_bubble_detach/retained", "zero_bubble_detach/detach_outputs_loss", "--size", "seed", "--set", "layers=4", "--set", "microbatches=6",
       "--steps", "2", "--ranks", "2", "--timeout", "60"]


def run(*words):
    out = Path("-".join(["run", *words]).replace("/", "_"))
    done = run_command(*RUN, *words, "--out", out, TIDEMARK_HISTORY="off")
    return done, out, read(out)["trials"]


def peak(rank, statistic):
    return max(phase[statistic]["peak"] for step in rank["steps"] for phase in step["phases"])


def check_snapshot(file, capacity):
    snapshot = pickle.loads(file.read_bytes())
    (oom,) = [event for trace in snapshot["device_traces"] for event in trace if event["action"] == "oom"]
    reserved = sum(segment["total_size"] for segment in snapshot["segments"])
    active = sum(block["size"] for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] != "inactive")
    assert 0 < active <= reserved <= capacity < reserved + oom["size"] + GRANULE, (active, reserved, oom, capacity)
    (device,) = json.loads(run_command("snapshot", "show", file, "--format", "json").stdout)["devices"]
    assert device["ooms"] == 1 and device["fragmentation"]["reserved"] == reserved, device


def test_oom():
    done, _, trials = run("--schedule", "instant")
    assert done.returncode in (0, 1), done.stderr
    retained, fixed = trials[0]["variants"]
    needs = {rank["rank"]: (peak(rank, "active"), peak(rank, "reserved")) for rank in retained["ranks"]}
    worst = max(needs, key=lambda rank: needs[rank][0])
    capacity = needs[worst][0] // GRANULE * GRANULE - GRANULE
    spared = [reserved for rank, (_, reserved) in needs.items() if rank != worst] + [peak(rank, "reserved") for rank in fixed["ranks"]]
    print(f"rank {worst} needs {needs[worst][0]} bytes, the others at most {max(spared)}: GPUs of {capacity}")
    assert max(spared) <= capacity, "the trial must need most on one rank alone"

    done, out, trials = run("--schedule", "all", "--capacity", str(capacity))
    assert done.returncode == 3, done.stderr
    assert [trial["schedule"] for trial in trials] == ["instant", "calibrated", "lagging"], "the other trials go on"
    failed = trials[0]["variants"][0]
    for trial in trials:  # what broke off has left nothing behind
        assert not trial["variants"][1].get("error"), trial["variants"][1]["error"]
    error = failed["error"]
    assert error.startswith(f"rank {worst}: CUDA out of memory. Tried to allocate "), error
    for what in ("step ", "last operators ", f"rank {1 - worst}: ", f"rank {worst} has aborted the communicator"):
        assert what in error, f"{what!r} is not in: {error}"
    file = f"zero_bubble_detach-seed-shapes-instant-retained-rank{worst}.pickle"
    assert f"snapshot of that moment: oom/{file}" in error, error
    check_snapshot(out / "oom" / file, capacity)
