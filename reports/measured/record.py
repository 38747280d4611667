#!/usr/bin/env python3
"""Small training programs, each in a process of its own, whose allocator events are recorded from the first byte on: on a GPU, or on the platform.

    python3 reports/measured/record.py --out DIR [--jobs N] [--seconds S] [NAME...]

Writes a recording DIR/NAME.json.gz for each, of a program of several ranks DIR/NAME.RANK.json.gz, with the highest allocated and reserved bytes until
the end of each step; `tidemark compare --events` compares two of them. The ranks share one GPU: NCCL takes each for a host of its own (NCCL_HOSTID).
Some programs need transformers, torchvision or timm. Exit code: 0 all were recorded, 1 one failed."""
import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from programs import NOTES, PROGRAMS, language, memory, operators, ranks, vision  # noqa: F401


def of_process():
    """Bytes of the GPU that NVIDIA's management library counts for this process; none where it does not say."""
    try:
        import pynvml
        pynvml.nvmlInit()
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
        return {p.pid: p.usedGpuMemory for p in found}.get(os.getpid())
    except Exception:
        return None


def packed(snapshot, source):
    """The trace and the segments of a snapshot in columns (README.md, "Your own GPU"), with addresses above the lowest one."""
    trace = snapshot["device_traces"][0]
    actions = sorted({event["action"] for event in trace})
    lowest = min([event["addr"] for event in trace if event.get("addr")] + [segment["address"] for segment in snapshot["segments"]], default=0)
    streams = {stream: n for n, stream in enumerate(sorted({event["stream"] for event in trace} | {s["stream"] for s in snapshot["segments"]}))}
    return {"schema": "tidemark/recording", "schema_version": "1.0", "source": source, "actions": actions, "streams": len(streams), "lowest_address": lowest,
            "settings": os.environ.get("PYTORCH_ALLOC_CONF", ""),
            "events": {"action": [actions.index(event["action"]) for event in trace], "size": [event["size"] for event in trace],
                       "stream": [streams[event["stream"]] for event in trace],
                       "address": [event["addr"] - lowest if event.get("addr") else None for event in trace]},
            "segments_at_end": [{"address": s["address"] - lowest, "size": s["total_size"], "type": s["segment_type"], "stream": streams[s["stream"]],
                                 "expandable": s["is_expandable"], "blocks": [[b["size"], b["state"], b["requested_size"]] for b in s["blocks"]]}
                                for s in snapshot["segments"]]}


def record(name, out):
    import torch
    function, world, _ = PROGRAMS[name]
    suffix = f".{os.environ['RANK']}" if world > 1 else ""
    torch.cuda.memory._record_memory_history(max_entries=1000000, context=None)
    peaks = []
    for _ in function():
        torch.cuda.synchronize()
        peaks.append([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    source = {"program": name, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
              "nccl": ".".join(map(str, torch.cuda.nccl.version())), "total": total, "free_at_end": free, "reserved_at_end": torch.cuda.memory_reserved(),
              "process": of_process(), "peaks": peaks, **NOTES}
    snapshot = torch.cuda.memory._snapshot()
    with gzip.GzipFile(f"{out}/{name}{suffix}.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(packed(snapshot, source), separators=(",", ":")).encode())
    sys.stdout.flush()
    os._exit(0)  # nothing after the recording


def started(name, out, port):
    function, world, variables = PROGRAMS[name]
    all_ = []
    for rank in range(world):
        env = {**os.environ, **variables}
        if world > 1:
            env |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                    "NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket"}
        log = open(f"{out}/{name}.{rank}.log", "w")
        all_.append(subprocess.Popen([sys.executable, __file__, "--one", name, "--out", out], env=env, stdout=log, stderr=log))
    return all_


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--one")
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    if a.one:
        return record(a.one, a.out)
    Path(a.out).mkdir(parents=True, exist_ok=True)
    alone = {"batch_halved_when_out_of_memory"}
    names = a.names or list(PROGRAMS)
    waiting = [n for n in names if n not in alone] + [n for n in names if n in alone]
    running, failed, begin, port = {}, [], time.monotonic(), 29600
    while waiting or running:
        while waiting and len(running) < (1 if waiting[0] in alone else a.jobs):
            port += 1
            running[waiting[0]] = (started(waiting[0], a.out, port), time.monotonic())
            waiting.pop(0)
        late = time.monotonic() - begin > a.seconds
        for name, (processes, since) in list(running.items()):
            codes = [p.poll() for p in processes]
            if late or time.monotonic() - since > 150 or any(c for c in codes):
                for p in processes:
                    p.kill()
            elif None in codes:
                continue
            codes = [p.wait() for p in processes]
            del running[name]
            if any(codes):
                failed.append(name)
            log = "".join(Path(f"{a.out}/{name}.{r}.log").read_text() for r in range(len(processes)))
            print(f"{name}: {'failed: ' + ([x for x in log.splitlines() if x.strip()] or ['killed'])[-1][:300] if any(codes) else 'recorded'}"
                  f" {time.monotonic() - since:.1f} s", flush=True)
        if late:
            print("out of time; not run: " + " ".join(waiting))
            return 1
        time.sleep(0.05)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
