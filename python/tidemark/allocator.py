"""Peaks of PyTorch's caching allocator by phase, from its own statistics. Its peaks are reset where a phase begins; a program that reads or
resets them itself sees what it would see without phases, and takes nothing from the phases' peaks."""
from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

Stats = dict[str, Any]  # of torch._C._cuda_memoryStats
Levels = dict[str, int]  # bytes by statistic
Calls = dict[str, tuple[int, int]]  # of NCCL: name -> (count, bytes)
STATISTICS = ("allocated", "active", "reserved", "requested")


def level(stats: Stats, which: str) -> Levels:
    return {name: int(stats[f"{name}_bytes"]["all"][which]) for name in STATISTICS}


def highest(one: Levels, other: Levels) -> Levels:
    return {name: max(one[name], other[name]) for name in STATISTICS}


class Phase:
    """A stretch of a program: levels in bytes when it begins, at its highest (its first moment included) and when it has ended."""

    def __init__(self, name: str, step: int | None, device: int, start: Levels, calls: Calls) -> None:
        self.name, self.step, self.device, self.start, self.peak, self.end = name, step, device, start, start, None
        self.calls = calls  # collectives until it began; those within it when it has ended


def replace(owner: Any, name: str, make: Callable[..., Any]) -> None:
    if hasattr(owner, name):  # some are of later versions of torch
        setattr(owner, name, make(getattr(owner, name)))


class Allocator:
    def __init__(self, torch: ModuleType) -> None:
        from tidemark_phases import follow_ranges  # of `tidemark exec`, below which this process runs
        from tidemark_platform import read

        self.read = read
        self.torch, self.libraries = torch, ctypes.CDLL(None)
        self.lock, self.open, self.phases, self.step = threading.RLock(), [], [], None
        self.kept = {}  # device -> peaks since the program's own reset
        torch.cuda.init()
        self.stats, self.reset = torch._C._cuda_memoryStats, torch._C._cuda_resetPeakMemoryStats
        replace(torch._C, "_cuda_memoryStats", self.unspoiling)
        replace(torch._C, "_cuda_resetPeakMemoryStats", self.folding)
        replace(torch._C, "_accelerator_getDeviceStats", self.unspoiling)
        replace(torch._C, "_accelerator_resetPeakStats", self.folding)
        follow_ranges(torch, lambda name, _: self.begin(name), self.finish)  # PyTorch's own ranges, too

    def unspoiling(self, stats: Stats) -> Callable[[int], Stats]:
        return lambda device: self.unspoiled(device, stats(device))

    def unspoiled(self, device: int, stats: Stats) -> Stats:
        """The statistics with the peaks that the program's own resets have left."""
        for name, pools in self.kept.get(device, {}).items():
            for pool, peak in pools.items():
                stats[name][pool]["peak"] = max(stats[name][pool]["peak"], peak)
        return stats

    def folding(self, reset: Callable[[int], Any]) -> Callable[[int], Any]:
        def folded(device: int) -> Any:
            with self.lock:
                self.fold(device)
                self.kept.pop(device, None)
                return reset(device)

        return folded

    def fold(self, device: int) -> None:
        """Hands the allocator's peaks to the phases that are open, and to what the program is told."""
        stats = self.stats(device)
        peak = level(stats, "peak")
        for phase in self.open:
            if phase.device == device:
                phase.peak = highest(phase.peak, peak)
        kept = self.kept.setdefault(device, {})
        for name, pools in stats.items():
            if not isinstance(pools, dict):
                continue
            for pool, figures in pools.items():
                if isinstance(figures, dict) and "peak" in figures:
                    known = kept.setdefault(name, {})
                    known[pool] = max(known.get(pool, 0), figures["peak"])

    def now(self, device: int | None = None) -> Levels:
        return level(self.stats(self.torch.cuda.current_device() if device is None else device), "current")

    def begin(self, name: str) -> Phase:
        with self.lock:
            device = self.torch.cuda.current_device()
            self.fold(device)
            self.reset(device)
            phase = Phase(name, self.step, device, self.now(device), self.collectives())
            self.open.append(phase)
            return phase

    def finish(self, phase: Phase) -> None:
        with self.lock:
            if phase not in self.open:
                return
            self.fold(phase.device)
            self.open.remove(phase)
            phase.end = self.now(phase.device)
            phase.calls = difference(self.collectives(), phase.calls)
            self.phases.append(phase)

    def peak(self, phase: Phase) -> Levels:
        """The highest of an open phase until now."""
        with self.lock:
            self.fold(phase.device)
            return phase.peak

    def held(self) -> int:
        """Bytes that the program holds on the current device, as requested: those of freed blocks that wait for a stream are not among them."""
        device = self.torch.cuda.current_device()
        return sum(block["requested_size"] for segment in self.torch.cuda.memory_snapshot() if segment["device"] == device
                   for block in segment["blocks"] if block["state"] == "active_allocated")

    def races(self) -> list[dict[str, Any]]:
        return self.read("tidemark_races_read")

    def counters(self) -> dict[str, int]:
        """Counters of the allocator and of the virtual device in this process."""
        stats = self.stats(self.torch.cuda.current_device())
        found = {name: int(stats[name]) for name in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "num_sync_all_streams")}
        for name in ("launches", "synchronisations"):
            count = getattr(self.libraries, f"tidemark_device_{name}")
            count.restype = ctypes.c_uint64
            found[name] = count()
        return found

    def described(self) -> dict[str, Any]:
        """Torch, NCCL and the virtual GPU."""
        device = self.read("tidemark_device_describe")
        return {"torch": self.torch.__version__, "nccl": ".".join(map(str, self.torch.cuda.nccl.version())), "profile": device["profile"],
                "capacity_bytes": device["capacity_bytes"], "schedule": device["schedule"]}

    def collectives(self) -> Calls:
        """NCCL calls of this process so far: all_gather -> (count, bytes)."""
        found = {}
        for row in self.read("tidemark_nccl_calls"):
            name = re.sub("(?<=[a-z])(?=[A-Z])", "_", row["function"][4:].replace("to", "To")).lower()
            calls, size = found.get(name, (0, 0))
            found[name] = (calls + row["calls"], size + row["bytes"])
        return found


def difference(after: Calls, before: Calls) -> Calls:
    found = {}
    for name, (count, size) in after.items():
        old = before.get(name, (0, 0))
        if count > old[0]:
            found[name] = (count - old[0], size - old[1])
    return found
