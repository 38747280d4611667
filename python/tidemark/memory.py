"""The fixture `memory`: what a test says about its memory, to the byte."""
import contextlib
import numbers
import os

from tidemark import verdict as verdicts
from tidemark.allocator import STATISTICS, Allocator, difference
from tidemark.formula import Formula, Misuse


class Measured(int):
    """Bytes, with the name of what they are."""

    def __new__(cls, value, name, memory):
        self = super().__new__(cls, value)
        self.name, self.memory = name, memory
        return self

    def equals(self, formula, **values):
        """Checks that the bytes are exactly what the formula says."""
        __tracebackhide__ = True
        return self.memory.judge(verdicts.equality(self.name, self, Formula(formula, values), self.memory.rank))

    def __repr__(self):
        return f"{int(self):,} bytes ({self.name})"


class Saved:
    """The bytes that a variant of a pair needs less than the baseline; judged when both have run."""

    def __init__(self, phase, statistic, memory):
        self.phase, self.statistic, self.memory = phase, statistic, memory

    def equals(self, formula, **values):
        formula = Formula(formula, values)
        self.memory.savings.append({"phase": self.phase, "statistic": self.statistic, "formula": formula.text, "values": formula.values,
                                    "expected": formula.evaluate()})


class Figures:
    """`allocated`, `active`, `reserved`, `requested`."""

    def __init__(self, make):
        for name in STATISTICS:
            setattr(self, name, make(name))

    def __repr__(self):
        return "; ".join(f"{name} {getattr(self, name)!r}" for name in STATISTICS)


class Memory:
    def __init__(self, torch, variant=None):
        """`variant` is the name of this variant of a pair: its verdicts are collected. Without one the first verdict that fails ends the test."""
        self.torch, self.variant = torch, variant
        self.rank, self.ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.allocator = Allocator(torch)
        self.verdicts, self.savings, self.stepped = [], [], []  # stepped: (held before, held after) of each step
        self.before = self.allocator.collectives()
        self.held_before = self.allocator.held()

    def judge(self, one):
        __tracebackhide__ = True
        self.verdicts.append(one)
        if one["status"] == verdicts.FAIL and self.variant is None:
            raise AssertionError(verdicts.text(one))
        return one["status"] != verdicts.FAIL

    def zero(self, name, measured, why=""):
        __tracebackhide__ = True
        return self.judge(verdicts.verdict(name, measured == 0, measured=measured, expected=0, why=why if measured else "", rank=self.rank))

    @contextlib.contextmanager
    def phase(self, name):
        """A stretch of the program with peaks of its own; phases nest, and record_function's and NVTX's ranges are phases too."""
        phase = self.allocator.begin(name)
        try:
            yield
        finally:
            self.allocator.finish(phase)

    def occurrences(self, name, step=None):
        all_steps = [phase for phase in self.allocator.phases if phase.name == name]
        found = all_steps if step is None else [phase for phase in all_steps if phase.step == step]
        if not found:
            there = ", ".join(sorted({phase.name for phase in self.allocator.phases})) or "none"
            raise Misuse(f"memory: no phase '{name}' has ended" + (f" in step {step}" if all_steps else "") + f" (phases: {there})")
        return found

    def peak(self, name, step=None):
        """The highest of all occurrences of a phase, or of those in one step."""
        found = self.occurrences(name, step)
        return Figures(lambda statistic: Measured(max(phase.peak[statistic] for phase in found), f"memory/{statistic}/{name}", self))

    def rise(self, name, step=None):
        """The same above the level at which the phase began."""
        found = self.occurrences(name, step)
        return Figures(lambda statistic: Measured(max(phase.peak[statistic] - phase.start[statistic] for phase in found),
                                                  f"memory/{statistic}/{name}/rise", self))

    def end(self, name, step=None):
        """The level at the end of a phase's last occurrence."""
        last = self.occurrences(name, step)[-1]
        return Figures(lambda statistic: Measured(last.end[statistic], f"memory/{statistic}/{name}/end", self))

    def saving(self, name):
        """In a variant of a pair: the baseline's peak of a phase minus this variant's."""
        if self.variant is None:
            raise Misuse("memory.saving: only a variant of a pair has a baseline (@tidemark.pair)")
        self.occurrences(name)
        return Figures(lambda statistic: Saved(name, statistic, self))

    def now(self):
        level = self.allocator.now()
        return Figures(lambda statistic: Measured(level[statistic], f"memory/{statistic}/now", self))

    def held(self):
        """Bytes that the program holds, as requested; what a stream alone still uses is not among them."""
        return Measured(self.allocator.held(), "memory/held", self)

    def value(self, name, number):
        """Bytes that a test has computed of others, for `equals`."""
        if isinstance(number, bool) or not isinstance(number, numbers.Integral):
            raise Misuse(f"memory.value: {name} is {number!r}, and no whole number of bytes")
        return Measured(number, f"memory/{name}", self)

    def steps(self, count):
        """Iterates over the training steps; each is a phase `step`."""
        for step in range(count):
            before = self.allocator.held()
            self.allocator.step = step
            phase = self.allocator.begin("step")
            yield step
            self.allocator.finish(phase)
            self.allocator.step = None
            self.stepped.append((before, self.allocator.held()))

    def returns_to_rest(self):
        """Checks that the program holds as much after its last step as before it."""
        __tracebackhide__ = True
        if len(self.stepped) < 2:
            raise Misuse("memory.returns_to_rest: needs at least two steps of `for step in memory.steps(n)` (the first makes what is kept)")
        before, after = self.stepped[-1]
        return self.zero("rest/step", after - before, f"held {before:,} bytes before step {len(self.stepped) - 1} and {after:,} after it")

    @contextlib.contextmanager
    def rest(self, name="block"):
        """A block after which the program holds what it held before, also where the block ends by an exception."""
        __tracebackhide__ = True
        before = self.allocator.held()
        try:
            yield
        finally:
            after = self.allocator.held()
        self.zero(f"rest/{name}", after - before, f"held {before:,} bytes before and {after:,} after")

    def no_growth(self, warmup=1):
        """Checks that peaks, and the memory held between steps, are the same in every step after the first `warmup`."""
        __tracebackhide__ = True
        count = len(self.stepped)
        if count < warmup + 2:
            raise Misuse(f"memory.no_growth: {count} steps, and at least {warmup + 2} are needed after {warmup} of warm-up")
        steps = range(warmup, count)
        held = [self.stepped[step][1] for step in steps]
        good = [self.zero("growth/held", *most_different(held, warmup))]
        for statistic in STATISTICS:
            peaks = [int(getattr(self.peak("step", step), statistic)) for step in steps]
            good.append(self.zero(f"growth/{statistic}", *most_different(peaks, warmup)))
        return all(good)

    def no_races(self):
        __tracebackhide__ = True
        if os.environ.get("TIDEMARK_RACES") != "1":
            raise Misuse("memory.no_races: races are not looked for; mark the test with @tidemark.races()")
        found = self.allocator.races()
        return self.judge(verdicts.verdict("races/none", not found, measured=len(found), expected=0, unit="", rank=self.rank,
                                           why=found[0]["explanation"] if found else ""))

    def collectives(self, phase=None):
        """NCCL's calls of this rank since the test began, or within the last occurrence of a phase: name ("all_gather") -> (count, bytes). Bytes
        of a call are those of the larger of its two buffers, as nccl-tests counts."""
        return difference(self.allocator.collectives(), self.before) if phase is None else self.occurrences(phase)[-1].calls

    def finish(self):
        """Checks that apply to every variant of a pair."""
        if len(self.stepped) > 1:
            self.returns_to_rest()
        self.no_races()

    def record(self):
        """Record of this rank for the pytest process, as plain data."""
        return {"rank": self.rank, "verdicts": self.verdicts, "savings": self.savings, "held": self.stepped,
                           "phases": [{"name": one.name, "step": one.step, "peak": one.peak, "end": one.end} for one in self.allocator.phases],
                           "collectives": self.collectives(), "races": self.allocator.races(), "counters": self.allocator.counters(),
                           "rest": self.stepped[-1] if self.stepped else (self.held_before, self.allocator.held()), "run": self.allocator.described()}


def most_different(values, first_step):
    """The difference from the first value that is largest, and where it is."""
    differences = [value - values[0] for value in values]
    place = max(range(len(values)), key=lambda i: abs(differences[i]))
    return differences[place], f"{values[0]:,} bytes in step {first_step} and {values[place]:,} in step {first_step + place}"
