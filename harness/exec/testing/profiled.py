"""Programs under torch.profiler, and what their traces say. usage: profiled.py PART [FOLDER]"""
import collections
import json
import os
import sys
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, schedule

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
FOLDER = tempfile.mkdtemp()


class Trace:
    def __init__(self, profiler):
        path = os.path.join(FOLDER, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            self.whole = json.load(file)
        events = [event for event in self.whole["traceEvents"] if event.get("ph") == "X"]
        self.window = next(event for event in events if event["name"].startswith("PyTorch Profiler"))
        self.by = collections.defaultdict(list)
        for event in events:
            self.by[event.get("cat")].append(event)
        self.device = sorted((event for name in DEVICE for event in self.by[name]), key=lambda event: event["ts"])
        self.calls = {event["args"]["correlation"]: event for name in ("cuda_runtime", "cuda_driver") for event in self.by[name]}
        self.operators = {event["args"]["External id"]: event for event in self.by["cpu_op"] if "External id" in event["args"]}

    def problems(self):
        """What no trace may say. Times are in microseconds; 0.01 is what Kineto writes of a nanosecond."""
        begin, end = self.window["ts"], self.window["ts"] + self.window["dur"]
        for event in self.device:
            name, called = event["name"][:60], self.calls.get(event["args"]["correlation"])
            if called is None:
                yield f"{name} has no call"
            elif event["ts"] < called["ts"] - 0.01:
                yield f"{name} begins before its call"
            if event["ts"] < begin or event["ts"] + event["dur"] > end + 0.01:
                yield f"{name} is outside the window"
        for stream in {event["args"]["stream"] for event in self.device}:
            ended = 0
            for event in (event for event in self.device if event["args"]["stream"] == stream):
                if event["ts"] < ended - 0.01:
                    yield f"{event['name'][:60]} overlaps another of its stream"
                ended = event["ts"] + event["dur"]

    def operator_of(self, event):
        called = self.operators.get(event["args"].get("External id"))
        return called["name"] if called else None

    def durations(self):
        return [(event["name"], round(event["dur"], 1)) for event in self.device]


class Training:
    def __init__(self):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).cuda()
        self.optimizer = torch.optim.AdamW(self.net.parameters())
        self.inputs = torch.randn(32, 64).pin_memory()

    def step(self):
        loss = self.net(self.inputs.cuda(non_blocking=True)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def say(trace):
    problems = list(trace.problems())
    print("problems:", len(problems), *problems[:3], sep="\n" if problems else " ")


def part_training():
    training = Training()
    training.step()
    with profile(activities=BOTH, profile_memory=True, record_shapes=True) as profiler:
        for _ in range(3):
            training.step()
    trace = Trace(profiler)
    say(trace)
    print("operators:", *sorted({str(trace.operator_of(event)) for event in trace.device if event["cat"] != "kernel"}))
    print("products:", *sorted({trace.operator_of(event) for event in trace.device if "atmul" in event["name"] or "emm" in event["name"]}))
    print("device:", collections.Counter(event["cat"] for event in trace.device).most_common())
    print("allocated:", sum(event["args"]["Bytes"] for event in trace.whole["traceEvents"]
                            if event.get("name") == "[memory]" and event["args"]["Device Type"] == 1 and event["args"]["Bytes"] > 0))
    averages = profiler.key_averages()
    total = sum(event.self_device_time_total if hasattr(event, "self_device_time_total") else event.self_cuda_time_total
                for event in averages if event.key.startswith(("void ", "Memcpy", "Memset", "LtMatmul", "Sgemm", "Gemm")))
    print("averages:", abs(total - sum(event["dur"] for event in trace.device)) < 1, "| label:", "virtual" in trace.whole.get("tidemark", ""))


def part_peak(on):
    training = Training()
    with profile(activities=BOTH, profile_memory=True) if on == "on" else torch.no_grad():
        with torch.enable_grad():
            for _ in range(4):
                training.step()
    stats = torch.cuda.memory_stats()
    print("peak:", *(stats[f"{kind}_bytes.all.{what}"] for kind in ("requested", "active", "reserved") for what in ("peak", "allocated")))


def part_schedule():
    training, seen = Training(), []

    def ready(profiler):
        trace = Trace(profiler)
        say(trace)
        seen.append(trace.durations())

    with profile(activities=BOTH, schedule=schedule(wait=1, warmup=2, active=2, repeat=2), on_trace_ready=ready) as profiler:
        for _ in range(12):
            training.step()
            profiler.step()
    # Of 2 steps each; Kineto's own rounding may move a digit.
    print("windows:", len(seen), len(seen[0]), [name for name, _ in seen[0]] == [name for name, _ in seen[1]],
          max(abs(a - b) for (_, a), (_, b) in zip(*seen)) <= 0.11)


def part_busy():
    """The virtual device works for longer than the host takes to ask for it."""
    a = torch.empty(16384, 16384, device="cuda")
    with profile(activities=BOTH) as profiler:
        for _ in range(4):
            a @ a
    trace = Trace(profiler)
    say(trace)
    print("seconds:", round(sum(event["dur"] for event in trace.device) / 1e6, 1), len(trace.device))


def part_ranks():
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).cuda(), gradient_as_bucket_view=True)
    with profile(activities=BOTH) as profiler:
        for _ in range(2):
            net(torch.ones(8, 512, device="cuda")).sum().backward()
    trace = Trace(profiler)
    say(trace)
    nccl = [event for event in trace.device if event["name"].startswith("nccl")]
    print(f"rank {rank}:", len(nccl), *{event["name"] for event in nccl}, *{trace.calls[event["args"]["correlation"]]["name"] for event in nccl},
          {event["args"]["stream"] for event in nccl} < {event["args"]["stream"] for event in trace.device}, {event["args"]["device"] for event in nccl} == {rank})
    dist.destroy_process_group()


def part_waits():
    from torch._C._profiler import _ExperimentalConfig

    side, x = torch.cuda.Stream(), torch.ones(1 << 20, device="cuda")
    with profile(activities=BOTH, experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)) as profiler:
        with torch.cuda.stream(side):
            y = x + 1
        event = side.record_event()
        event.synchronize()
        x[0].item() if os.environ.get("TIDEMARK_MODE") == "math" else side.synchronize()
        del y
    trace = Trace(profiler)
    say(trace)
    print("waits:", *sorted({event["name"] for event in trace.by["cuda_sync"]}))


def part_graph():
    training = Training()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        training.step()
    graph, x = torch.cuda.CUDAGraph(), torch.ones(64, 64, device="cuda")
    with torch.cuda.graph(graph):
        y = (x @ x).relu()
    with profile(activities=BOTH) as profiler:
        graph.replay()
    trace = Trace(profiler)
    say(trace)
    print("graph:", len(trace.device), {trace.calls[event["args"]["correlation"]]["name"] for event in trace.device}, y.shape[0])


if __name__ == "__main__":
    globals()["part_" + sys.argv[1]](*sys.argv[2:])
