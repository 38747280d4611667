"""The fixture `memory`: what a test says about its memory, to the byte."""
from __future__ import annotations

import contextlib
import numbers
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Generic, SupportsIndex, SupportsInt, TypeVar, Union

from tidemark import golden
from tidemark import verdict as verdicts
from tidemark.allocator import STATISTICS, Allocator, Calls, Phase, difference
from tidemark.verdict import Misuse, Record, Verdict

Figure = TypeVar("Figure", bound="Union[Measured, Saved]")


class Measured(int):
    """Bytes, with the name of what they are: an int that can also be checked."""

    name: str
    memory: Memory

    def __new__(cls, value: int, name: str, memory: Memory) -> Measured:
        self = super().__new__(cls, value)
        self.name, self.memory = name, memory
        return self

    def equals(self, formula: str, **values: SupportsInt) -> bool:
        """Checks that the bytes are exactly what the formula says, with a whole number for each of its names.

        Raises AssertionError where they are not (in a variant of a pair the verdict is collected, and False returned), Misuse where the
        formula is none or lacks a value."""
        __tracebackhide__ = True
        return self.memory.judge(verdicts.equality(self.name, self, formula, values, self.memory.rank))

    def __repr__(self) -> str:
        return f"{int(self):,} bytes ({self.name})"


class Saved:
    """The bytes that a variant of a pair needs less than the baseline; judged when both have run."""

    def __init__(self, phase: str, statistic: str, memory: Memory) -> None:
        self.phase, self.statistic, self.memory = phase, statistic, memory

    def equals(self, formula: str, **values: SupportsInt) -> None:
        """Has pytest check, after both have run, that the saved bytes are exactly what the formula says. Raises Misuse where it is none."""
        claim = verdicts.equality(self.phase, None, formula, values)
        verdicts.judged([claim])
        self.memory.savings.append({"phase": self.phase, "statistic": self.statistic, "formula": claim["expected"]["formula"], "values": claim["expected"]["values"]})


class Figures(Generic[Figure]):
    """Bytes by the statistics of PyTorch's caching allocator: `requested` by tensors, `allocated` (with what the allocator does not split
    off), `active` (with blocks that wait for a stream), `reserved` from the device."""

    allocated: Figure
    active: Figure
    reserved: Figure
    requested: Figure

    def __init__(self, make: Callable[[str], Figure]) -> None:
        for name in STATISTICS:
            setattr(self, name, make(name))

    def __repr__(self) -> str:
        return "; ".join(f"{name} {getattr(self, name)!r}" for name in STATISTICS)


class Memory:
    """The fixture `memory` of a test: the memory of this rank's device, in bytes. A check that does not hold raises AssertionError, and the
    test fails; a mistake in the test raises Misuse, and its outcome is an error."""

    def __init__(self, torch: ModuleType, variant: str | None = None, order: Record | None = None) -> None:
        """`variant` is the name of this variant of a pair: its verdicts are collected. Without one the first verdict that fails ends the test.
        `order` is what pytest has told this rank (launch.run)."""
        self.torch, self.variant, self.order = torch, variant, order or {}
        self.rank, self.ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.allocator = Allocator(torch)
        self.allocator.follow_ranges()
        self.verdicts: list[Verdict] = []
        self.savings: list[Record] = []
        self.stepped: list[tuple[int, int]] = []  # (held before, held after) of each step
        self.goldens: dict[str, Record] = {}
        self.before = self.allocator.collectives()
        self.held_before = self.allocator.held()
        self.whole = self.allocator.begin("test")  # left out of the phases that the test names

    def judge(self, claim: Verdict) -> bool:
        """Judges a claim and keeps the verdict; one that failed raises AssertionError, but in a variant of a pair."""
        __tracebackhide__ = True
        (one,), text = verdicts.judged([claim])
        self.verdicts.append(one)
        if one["status"] == verdicts.FAIL and self.variant is None:
            raise AssertionError(text)
        return one["status"] != verdicts.FAIL

    def zero(self, name: str, measured: int, why: str = "") -> bool:
        """Checks that `measured` bytes are 0."""
        __tracebackhide__ = True
        return self.judge(verdicts.verdict(name, measured=measured, low=0, high=0, why=why, rank=self.rank))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A stretch of the program with peaks of its own, its first moment included. Phases nest, and the ranges of record_function and NVTX
        are phases too."""
        phase = self.allocator.begin(name)
        try:
            yield
        finally:
            self.allocator.finish(phase)

    def occurrences(self, name: str, step: int | None = None) -> list[Phase]:
        """The ended phases of this name, of all steps or of one. Raises Misuse where there is none."""
        all_steps = [phase for phase in self.allocator.phases if phase.name == name]
        phases = all_steps if step is None else [phase for phase in all_steps if phase.step == step]
        if not phases:
            there = ", ".join(sorted({phase.name for phase in self.allocator.phases})) or "none"
            raise Misuse(f"memory: no phase '{name}' has ended" + (f" in step {step}" if all_steps else "") + f" (phases: {there})")
        return phases

    def peak(self, name: str, step: int | None = None) -> Figures[Measured]:
        """The highest bytes of all occurrences of a phase, or of those in one step of `memory.steps`. Raises Misuse where none has ended."""
        phases = self.occurrences(name, step)
        return Figures(lambda statistic: Measured(max(phase.peak[statistic] for phase in phases), f"memory/{statistic}/{name}", self))

    def rise(self, name: str, step: int | None = None) -> Figures[Measured]:
        """The highest bytes above the level at which the phase began, of all occurrences or those in one step. Raises Misuse where none has ended."""
        phases = self.occurrences(name, step)
        return Figures(lambda statistic: Measured(max(phase.peak[statistic] - phase.start[statistic] for phase in phases),
                                                  f"memory/{statistic}/{name}/rise", self))

    def end(self, name: str, step: int | None = None) -> Figures[Measured]:
        """The bytes at the end of the last occurrence of a phase. Raises Misuse where none has ended."""
        last = self.occurrences(name, step)[-1]
        return Figures(lambda statistic: Measured(last.end[statistic], f"memory/{statistic}/{name}/end", self))

    def saving(self, name: str) -> Figures[Saved]:
        """In a variant of a pair: the baseline's peak of a phase minus this variant's, in bytes. Raises Misuse outside a pair."""
        if self.variant is None:
            raise Misuse("memory.saving: only a variant of a pair has a baseline (@tidemark.pair)")
        self.occurrences(name)
        return Figures(lambda statistic: Saved(name, statistic, self))

    def now(self) -> Figures[Measured]:
        """The bytes at this moment."""
        level = self.allocator.now()
        return Figures(lambda statistic: Measured(level[statistic], f"memory/{statistic}/now", self))

    def held(self) -> Measured:
        """Bytes that the program holds, as requested; those that only a stream still uses are not among them."""
        return Measured(self.allocator.held(), "memory/held", self)

    def value(self, name: str, number: SupportsIndex) -> Measured:
        """Bytes that a test has computed of others, for `equals`. Raises Misuse where `number` is not a whole number."""
        if isinstance(number, bool) or not isinstance(number, numbers.Integral):
            raise Misuse(f"memory.value: {name} is {number!r}, and no whole number of bytes")
        return Measured(int(number), f"memory/{name}", self)

    def steps(self, count: int) -> Iterator[int]:
        """Iterates over `count` training steps; each is a phase `step`."""
        for step in range(count):
            before = self.allocator.held()
            self.allocator.step = step
            phase = self.allocator.begin("step")
            yield step
            self.allocator.finish(phase)
            self.allocator.step = None
            self.stepped.append((before, self.allocator.held()))

    def returns_to_rest(self) -> bool:
        """Checks that the program holds as many bytes after its last step as before it. Raises Misuse before the second step."""
        __tracebackhide__ = True
        if len(self.stepped) < 2:
            raise Misuse("memory.returns_to_rest: needs at least two steps of `for step in memory.steps(n)` (the first makes what is kept)")
        before, after = self.stepped[-1]
        return self.zero("rest/step", after - before, f"held {before:,} bytes before step {len(self.stepped) - 1} and {after:,} after it")

    @contextlib.contextmanager
    def rest(self, name: str = "block") -> Iterator[None]:
        """A block after which the program holds the bytes that it held before, also where the block ends by an exception."""
        __tracebackhide__ = True
        before = self.allocator.held()
        try:
            yield
        finally:
            after = self.allocator.held()
        self.zero(f"rest/{name}", after - before, f"held {before:,} bytes before and {after:,} after")

    def no_growth(self, warmup: int = 1) -> bool:
        """Checks that the peaks, and the bytes held between steps, are the same in every step after the first `warmup`. Raises Misuse where fewer
        than two such steps have run."""
        __tracebackhide__ = True
        count = len(self.stepped)
        if count < warmup + 2:
            raise Misuse(f"memory.no_growth: {count} steps, and at least {warmup + 2} are needed after {warmup} of warm-up")
        steps = range(warmup, count)
        bytes_at_steps = [self.stepped[step][1] for step in steps]
        good = [self.zero("growth/held", *most_different(bytes_at_steps, warmup))]
        for statistic in STATISTICS:
            peaks = [int(getattr(self.peak("step", step), statistic)) for step in steps]
            good.append(self.zero(f"growth/{statistic}", *most_different(peaks, warmup)))
        return all(good)

    def no_races(self) -> bool:
        """Checks that no race was found. Raises Misuse without @tidemark.races()."""
        __tracebackhide__ = True
        if os.environ.get("TIDEMARK_RACES") != "1":
            raise Misuse("memory.no_races: races are not looked for; mark the test with @tidemark.races()")
        races = self.allocator.races()
        return self.judge(verdicts.verdict("races/none", measured=len(races), low=0, high=0, unit="races", rank=self.rank,
                                           why=races[0]["explanation"] if races else ""))

    def collectives(self, phase: str | None = None) -> Calls:
        """NCCL's calls of this rank since the test began, or within the last occurrence of a phase: name ("all_gather") -> (count, bytes). Bytes
        of a call are those of the larger of its two buffers, as nccl-tests counts."""
        return difference(self.allocator.collectives(), self.before) if phase is None else self.occurrences(phase)[-1].calls

    def matches_golden(self, name: str = "") -> bool:
        """Checks that the peaks of every phase, and what is alive at the highest peak by kind, are those of the test's golden: a file in `goldens`
        beside the test, which `pytest --tidemark-update` writes. A second golden of a test needs a name.

        Raises AssertionError with the differences, or where there is no golden; Misuse where it cannot be read or was edited by hand."""
        __tracebackhide__ = True
        if self.variant is not None:
            raise Misuse("memory.matches_golden: a variant of a pair has no golden: give its figures formulas, or test it outside the pair")
        if name in self.goldens:
            raise Misuse("memory.matches_golden: was called twice" + (f" with the name {name!r}" if name else "; a second golden needs a name: memory.matches_golden('after')"))
        self.goldens[name] = golden.taken(self.allocator.phases, self.allocator.peak(self.whole))
        if self.order.get("update"):
            return True
        return self.judge(golden.verdict(self.order, name, self.goldens[name], self.described(), self.rank))

    def described(self) -> Record:
        """What a golden was made with."""
        run = self.allocator.described()
        return {"gpu": run["profile"], "capacity": run["capacity_bytes"], "torch": run["torch"], "schedule": run["schedule"], "mode": os.environ.get("TIDEMARK_MODE", ""), "ranks": self.ranks}

    def keep_limits(self, limit: int | None, of: str, growth: int | None) -> None:
        """Checks @tidemark.limit and @tidemark.limit_growth after the test's body. Raises AssertionError and Misuse as the other checks do."""
        __tracebackhide__ = True
        if limit is not None:
            peak = self.allocator.peak(self.whole)[of]
            self.judge(verdicts.verdict(f"memory/{of}/limit", measured=peak, high=limit, rank=self.rank))
        if growth is not None:
            counted = self.stepped[1:]
            if len(counted) < 2:
                raise Misuse(f"tidemark.limit_growth: {len(self.stepped)} steps, and at least 3 of `for step in memory.steps(n)` are needed (the first makes what is kept)")
            grown = counted[-1][1] - counted[0][1]
            self.judge(verdicts.verdict("growth/limit", measured=grown, high=growth * (len(counted) - 1), rank=self.rank,
                                        why=f"held {counted[0][1]:,} bytes after step 1 and {counted[-1][1]:,} after step {len(counted)}"))

    def finish(self) -> None:
        """Checks that apply to every variant of a pair."""
        if len(self.stepped) > 1:
            self.returns_to_rest()
        self.no_races()

    def record(self) -> Record:
        """Record of this rank for the pytest process, as plain data."""
        self.allocator.finish(self.whole)
        self.allocator.phases.remove(self.whole)
        return {"rank": self.rank, "verdicts": self.verdicts, "goldens": self.goldens, "made_with": self.described(), "savings": self.savings, "held": self.stepped,
                "phases": list(map(recorded, self.allocator.phases)), "whole": recorded(self.whole),
                "collectives": self.collectives(), "races": self.allocator.races(), "counters": self.allocator.counters(),
                "rest": self.stepped[-1] if self.stepped else (self.held_before, self.allocator.held()), "run": self.allocator.described()}


def recorded(phase: Phase) -> Record:
    return {"name": phase.name, "step": phase.step, "peak": phase.peak, "end": phase.end}


def most_different(values: list[int], first_step: int) -> tuple[int, str]:
    """The difference from the first value that is largest, and where it is."""
    differences = [value - values[0] for value in values]
    place = max(range(len(values)), key=lambda i: abs(differences[i]))
    return differences[place], f"{values[0]:,} bytes in step {first_step} and {values[place]:,} in step {first_step + place}"
