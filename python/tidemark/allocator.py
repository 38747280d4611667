"""Peaks of PyTorch's caching allocator by phase, from the recorder of this process (../../harness/virtual/recorder/recorder.h). The peaks of
PyTorch's own statistics are the program's: nothing here resets them."""
from __future__ import annotations

import ctypes
import re
import threading
from types import ModuleType
from typing import Any

Levels = dict[str, int]  # bytes by statistic
Calls = dict[str, tuple[int, int]]  # of NCCL: name -> (count, bytes)
STATISTICS = ("allocated", "active", "reserved", "requested")


class Phase:
    """A stretch of a program: levels in bytes when it begins, at its highest (its first moment included) and when it has ended."""

    def __init__(self, name: str, step: int | None, stretch: int, start: Levels, calls: Calls) -> None:
        self.name, self.step, self.stretch, self.start, self.peak, self.end = name, step, stretch, start, start, None
        self.calls = calls  # collectives until it began; those within it when it has ended


class Allocator:
    def __init__(self, torch: ModuleType) -> None:
        from tidemark_platform import read  # of `tidemark exec`, below which this process runs

        self.read = read
        self.torch, self.libraries, self.recorder = torch, ctypes.CDLL(None), ctypes.PyDLL(None)
        self.recorder.tidemark_record_stretch.restype = self.recorder.tidemark_record_held.restype = ctypes.c_int64
        self.recorder.tidemark_record_stretch_read.argtypes = (ctypes.c_int64, ctypes.c_void_p)
        self.recorder.tidemark_record_stretch_end.argtypes = (ctypes.c_int64,)
        self.lock, self.open, self.phases, self.step = threading.RLock(), [], [], None
        torch.cuda.init()

    def follow_ranges(self) -> None:
        """The ranges of record_function and NVTX are phases from now on."""
        from tidemark_phases import follow_ranges

        follow_ranges(self.torch, lambda name, _: self.begin(name), self.finish)

    def levels(self, stretch: int) -> tuple[Levels, Levels, Levels]:
        """Bytes of a stretch of the program when it began, at the highest, and now."""
        figures = (ctypes.c_int64 * 12)()
        if self.recorder.tidemark_record_stretch_read(stretch, figures) != 0:
            raise RuntimeError("tidemark: the memory of this process is not recorded: its allocator is not PyTorch's own")
        return tuple(dict(zip(STATISTICS, figures[at:at + 4])) for at in (0, 4, 8))

    def now(self) -> Levels:
        stats = self.torch.cuda.memory_stats()
        return {name: int(stats[f"{name}_bytes.all.current"]) for name in STATISTICS}

    def begin(self, name: str) -> Phase:
        with self.lock:
            stretch = self.recorder.tidemark_record_stretch(self.torch.cuda.current_device())
            phase = Phase(name, self.step, stretch, self.levels(stretch)[0], self.collectives())
            self.open.append(phase)
            return phase

    def finish(self, phase: Phase) -> None:
        with self.lock:
            if phase not in self.open:
                return
            self.open.remove(phase)
            _, phase.peak, phase.end = self.levels(phase.stretch)
            self.recorder.tidemark_record_stretch_end(phase.stretch)
            phase.calls = difference(self.collectives(), phase.calls)
            self.phases.append(phase)

    def peak(self, phase: Phase) -> Levels:
        """The highest of an open phase until now."""
        return self.levels(phase.stretch)[1]

    def held(self) -> int:
        """Bytes that the program holds on the current device, as requested: those of freed blocks that wait for a stream are not among them."""
        return self.recorder.tidemark_record_held(self.torch.cuda.current_device())

    def races(self) -> list[dict[str, Any]]:
        return self.read("tidemark_races_read")

    def counters(self) -> dict[str, int]:
        """Counters of the allocator and of the virtual device in this process."""
        stats = self.torch.cuda.memory_stats()
        counts = {name: int(stats[name]) for name in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "num_sync_all_streams")}
        for name in ("launches", "synchronisations"):
            count = getattr(self.libraries, f"tidemark_device_{name}")
            count.restype = ctypes.c_uint64
            counts[name] = count()
        return counts

    def described(self) -> dict[str, Any]:
        """Torch, NCCL and the virtual GPU."""
        device = self.read("tidemark_device_describe")
        return {"torch": self.torch.__version__, "nccl": ".".join(map(str, self.torch.cuda.nccl.version())), "profile": device["profile"],
                "capacity_bytes": device["capacity_bytes"], "schedule": device["schedule"]}

    def collectives(self) -> Calls:
        """NCCL calls of this process so far: all_gather -> (count, bytes)."""
        totals = {}
        for row in self.read("tidemark_nccl_calls"):
            name = re.sub("(?<=[a-z])(?=[A-Z])", "_", row["function"][4:].replace("to", "To")).lower()
            calls, size = totals.get(name, (0, 0))
            totals[name] = (calls + row["calls"], size + row["bytes"])
        return totals


def difference(after: Calls, before: Calls) -> Calls:
    changes = {}
    for name, (count, size) in after.items():
        old = before.get(name, (0, 0))
        if count > old[0]:
            changes[name] = (count - old[0], size - old[1])
    return changes
