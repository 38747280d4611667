"""Released code compared with the scenarios, in bytes: what ci/upstream and the folders `upstream/` of the scenarios share.

A row is a program of released code under `tidemark exec`, and the variant of the scenario that does the same at the same sizes. Every
peak of the last step, of every phase, rank and statistic, is the scenario's, plus the differences that the row names. A difference is a
formula in the scenario's own words (`tidemark list`), derived from the code of both; it is evaluated, and never fitted. What has no
formula is not judged, and the row says so."""
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "reports"), str(ROOT / "python"), str(ROOT / "ci")]
from environments import TIDEMARK  # noqa: E402
from reading import read  # noqa: E402

STATISTICS = ("allocated", "active", "reserved", "requested")
LIMIT = 3600  # seconds of a process
RELEASED = "released"  # the variant of released code in a report


class Failed(Exception):
    """A program that did not run to its end."""


class Phases:
    """Peaks of the phases of a step, in a program. A phase ends with `end`; of a program the last step counts."""
    last = None
    allocator = None  # of this process

    def __init__(self, torch):
        if Phases.allocator is None:
            spec = importlib.util.spec_from_file_location("allocator", ROOT / "python" / "tidemark" / "allocator.py")  # the package itself asks for pytest
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            Phases.allocator = module.Allocator(torch)
        Phases.last = self
        self.phases, self.before = [], self.allocator.held()
        self.open = self.allocator.begin("")

    def end(self, name):
        self.open.name = name
        self.allocator.finish(self.open)
        self.phases.append(self.open)
        self.open = self.allocator.begin("")

    @property
    def peaks(self):
        return {phase.name: phase.peak for phase in self.phases}

    def record(self):
        """The record of a rank in a report (python/tidemark/report.py), at the program's end."""
        return {"rank": int(os.environ.get("RANK", 0)), "counters": self.allocator.counters(), "collectives": self.allocator.collectives(), "races": [],
                "rest": [self.before, self.allocator.held()],
                "phases": [{"step": 1, "name": phase.name, "peak": phase.peak, "end": phase.end} for phase in self.phases]}


def train_steps(torch, model, optimizer, inputs, steps, after=lambda step: None):
    """Training steps with the mean of the output as their loss; batch, output and loss live until the next step makes new ones. `inputs` makes a batch,
    `after` is called at the end of each step. Returns the peaks of the last step's four phases."""
    for step in range(steps):
        phases = Phases(torch)
        optimizer.zero_grad()
        phases.end("zero_grad")
        batch = inputs()
        output = model(batch)
        loss = output.mean()
        phases.end("forward")
        loss.backward()
        phases.end("backward")
        optimizer.step()
        phases.end("optimizer")
        after(step)
    return phases.peaks


def programs(run):
    """Runs the programs that the command line names, each in a process of its own that is forked before the device has been touched: `run` gets the words of
    one and the path of a store for its ranks, and returns what it has found, which is written for the script that has started them, or printed."""
    folder = os.environ.get("TIDEMARK_UPSTREAM_OUT")
    out = Path(folder or tempfile.mkdtemp())
    for number, words in enumerate(" ".join(sys.argv[1:]).split(" + ")):
        child = os.fork()
        if child == 0:
            result = run(words.split(), str(out / f"store{number}"))
            if Phases.last:
                result["record"] = Phases.last.record()
            if folder:
                (out / f"{number}.{os.environ.get('RANK', 0)}.json").write_text(json.dumps(result), encoding="utf-8")
            else:
                print(json.dumps(result), flush=True)
            os._exit(0)  # the interpreter's own end may meet an autograd thread that still drops an object
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"error: the program {words} has failed, see above")


@dataclass(frozen=True)
class Difference:
    """Bytes that released code has more than the scenario (or less), and why."""
    why: str
    formula: str
    phases: tuple = ()  # without their suffix ("forward" of "forward/0"); none named: all
    statistics: tuple = STATISTICS
    whole: bool = False  # the formula is the whole figure of released code, and not what it has more

    def applies(self, phase, statistic):
        return statistic in self.statistics and (not self.phases or phase.partition("/")[0] in self.phases)


@dataclass(frozen=True)
class Row:
    name: str
    torch: str
    words: tuple  # arguments of the folder's program.py
    variant: str
    parameters: tuple = ()  # of the scenario: (name, value)
    size: str = "seed"
    schedule: str = "instant"
    mode: str = "shapes"  # of the released program; the scenario computes no numbers
    ranks: int = 2
    steps: int = 4
    as_rank: int = -1  # the rank of the scenario, and of --as-rank, that is compared, by itself; all without
    environment: tuple = ()  # of the released program alone
    shared: tuple = ()  # environment of both
    flags: tuple = ()  # further ones of exec
    each_rank: bool = False  # the program is one rank, and runs once for each with --rank=N; its peaks are of the whole step (phase "step")
    beside: tuple = ()  # variants that run in the same trial of the scenario
    packages: tuple = ()  # what the released program imports beside torch
    values: tuple = ()  # of words in formulas that the scenario does not have
    of_rank: tuple = ()  # the same, by rank
    differences: tuple = ()
    not_judged: dict = field(default_factory=dict)  # statistic -> the reason
    small: bool = False  # of the short part that CTest runs


@dataclass
class Outcome:
    """The result of a row."""
    compared: int = 0
    equal: int = 0
    explained: int = 0
    wrong: list = field(default_factory=list)
    amounts: dict = field(default_factory=dict)  # why -> the amounts that were added
    verdicts: list = field(default_factory=list)  # on every figure
    report: dict = None  # of the scenario's run; None: it has failed
    theirs: int = 0  # highest active bytes
    ours: int = 0


@functools.lru_cache(maxsize=None)
def trial(scenario, variants, size, parameters, schedule, ranks, steps, shared=(), as_rank=-1):
    """The report of a run of one trial."""
    with tempfile.TemporaryDirectory() as folder:
        command = [TIDEMARK, "run", *(f"{scenario}/{name}" for name in variants), "--size", size, "--ranks", str(ranks), "--mode", "shapes",
                   "--schedule", schedule, "--steps", str(steps), "--races", "off", "--details", "none", "--out", folder + "/run",
                   *(["--as-rank", str(as_rank)] if as_rank >= 0 else [])]
        for name, value in parameters:
            command += ["--set", f"{name}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, env={**os.environ, **dict(shared)})
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
        report = read(Path(folder, "run"))
    return report


def trial_of(scenario, row):
    return trial(scenario, row.beside or (row.variant,), row.size, row.parameters, row.schedule, row.ranks, row.steps, row.shared, row.as_rank)


def ours(scenario, row):
    """(peaks of every rank by phase and statistic, values of the scenario's words by statistic, of every rank how often each word is in the account of
    its highest requested bytes: n_WORD)"""
    (own_trial,) = trial_of(scenario, row)["trials"]
    (variant,) = [each for each in own_trial["variants"] if each["name"] == row.variant]
    peaks = [{phase["name"]: {name: phase[name]["peak"] for name in STATISTICS} for phase in rank["phases"]} for rank in variant["ranks"]]
    if row.each_rank:  # what the program's order of Python objects decides, allocated and reserved bytes, is not compared
        peaks = [{"step": {"requested": max(phase["requested"] for phase in rank.values())}} for rank in peaks]
    values = {statistic: {} for statistic in STATISTICS}
    counts = [{} for _ in peaks]
    for verdict in own_trial["verdicts"]:
        found_sum = re.fullmatch(r"memory/(form|account)/(\w+)/.*", verdict["name"])
        if found_sum and verdict["variant"] == row.variant:
            values[found_sum[2]] |= verdict["expected"]["values"]
        if verdict["name"] == "memory/account/requested/pipeline" and verdict["variant"] == row.variant:
            for rank in verdict["ranks"]:
                counts[rank] = {f"n_{symbol['name']}": 0 for symbol in own_trial["symbols"]} | counted(verdict["expected"]["formula"])
        found_moment = re.fullmatch(r"trajectory/(form|account)/(.*)", verdict["name"])
        if found_moment and verdict["variant"] == row.variant and not row.each_rank:  # of allocated bytes first
            moment = found_moment[2]
            for rank in range(len(peaks)):
                of_moment = peaks[rank].setdefault(moment, {})
                of_moment["requested" if of_moment else "allocated"] = verdict["measured"]
    return peaks, values, counts


def counted(form):
    """{n_a: 2, n_b: 1} of a sum such as 2*a + b."""
    return {f"n_{symbol}": int(count or 1) for count, symbol in re.findall(r"(?:(\d+)\*)?\b([A-Za-z]\w*)", form)}


def process_of(row):
    """Rows for which this is the same can be programs of one process."""
    return row.torch, row.mode, row.schedule, row.ranks, row.as_rank, row.each_rank, row.flags, row.packages, row.environment, row.shared


def theirs(program, python, path, rows):
    """The records of the ranks of released programs, by row; the rows are of one process. `path`: folders of further packages."""
    (torch, mode, schedule, ranks, alone, each_rank, flags, _, own, shared), = {process_of(row) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        programs_of = [" ".join((*row.words, *([f"--rank={rank}"] if each_rank else []))) for row in rows for rank in range(ranks if each_rank else 1)]
        command = [TIDEMARK, "exec", "--mode", mode, "--schedule", schedule, "--timeout", "600",
                   *([] if each_rank else ["--ranks", ranks] if alone < 0 else ["--as-rank", alone, "--of", ranks]), *flags, "--", python, program,
                   *" + ".join(programs_of).split()]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TIDEMARK_UPSTREAM_OUT": folder,
                       "PYTHONPATH": ":".join(filter(None, (*map(str, path), os.environ.get("PYTHONPATH")))), **dict(shared), **dict(own)}
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT, check=False, cwd=folder, env=environment)
        except subprocess.TimeoutExpired:
            raise Failed(f"the programs were stopped after {LIMIT} s") from None
        outputs = [[json.loads(file.read_text(encoding="utf-8")) for file in sorted(Path(folder).glob(f"{number}.*.json"), key=lambda file: int(file.name.split(".")[1]))]
                 for number in range(len(programs_of))]
        if done.returncode != 0 or not all(outputs):
            lines = (done.stdout + done.stderr).splitlines()
            errors = [line for line in lines if re.match(r"\w*(Error|Exception)\b", line)] or [line for line in lines if "rror" in line] or ["nothing was said"]
            raise Failed(f"exit code {done.returncode}, torch {torch}: {errors[-1].strip()}")
        if each_rank:
            outputs = [[rank for (rank,) in outputs[first:first + ranks]] for first in range(0, len(outputs), ranks)]
        return outputs


def claims_of(row, phase, statistic, rank, scenario, released, words):
    """([(Difference, the claim that asks for the value of its formula)], the claim that a figure of the released code is the scenario's with these differences);
    all in bytes. The formula of a difference that is the whole figure stands in place of the scenario's. Raises Misuse where a formula is none."""
    from tidemark.verdict import SKIP, equality, verdict

    name = f"memory/released/{statistic}/{phase}"
    if statistic in row.not_judged:
        return [], verdict(name, SKIP, variant=RELEASED, rank=rank, measured=released, why=row.not_judged[statistic])
    differences = [each for each in row.differences if each.applies(phase, statistic)]
    whole = any(each.whole for each in differences)
    formula = " + ".join(([] if whole else ["scenario"]) + [f"({each.formula})" for each in differences])
    asked = [(each, equality(name, None, each.formula, words)) for each in differences]
    return asked, {**equality(name, released, formula, {**words, "scenario": scenario}, rank), "variant": RELEASED}


def compare(scenario, row, released_ranks):
    from tidemark.verdict import FAIL, PASS, Misuse, judged

    outcome = Outcome()
    try:
        expected, values, counts = ours(scenario, row)
        outcome.report = trial_of(scenario, row)
    except Failed as error:
        outcome.wrong.append(str(error))
        return outcome
    released_phases = [rank["phases"] | {name: {"allocated": allocated, "requested": requested} for name, allocated, requested in rank.get("trajectory", ())}
                       for rank in released_ranks]
    figures, claims = [], []  # (text, scenario's bytes, [Difference]) and, in this order, the claims on them
    for rank, (mine, released) in enumerate(zip(expected, released_phases, strict=True)):
        if mine.keys() != released.keys():
            outcome.wrong.append(f"rank {rank} has the phases {', '.join(released)}, and the scenario {', '.join(mine)}")
            continue
        for phase, statistic in ((phase, statistic) for phase in mine for statistic in mine[phase]):
            here, there = mine[phase][statistic], released[phase][statistic]
            if statistic == ("requested" if row.each_rank else "active"):
                outcome.theirs, outcome.ours = max(outcome.theirs, there), max(outcome.ours, here)
            words = values[statistic] | counts[rank] | dict(row.values) | dict(row.of_rank[rank] if row.of_rank else ())
            try:
                asked, claim = claims_of(row, phase, statistic, rank, here, there, words)
            except Misuse as error:
                outcome.wrong.append(f"rank {rank} {phase} {statistic}: {error}")
                continue
            figures.append((f"rank {rank} {phase} {statistic}", here, [each for each, _ in asked]))
            claims += [*(one for _, one in asked), claim]
    try:
        verdicts = iter(judged(claims, TIDEMARK)[0])
    except Misuse as error:
        outcome.wrong.append(str(error))
        return outcome
    for text, here, differences in figures:
        amounts = [(each.why, next(verdicts)["expected"]["low"] - (here if each.whole else 0)) for each in differences]
        amounts = [(why, amount) for why, amount in amounts if amount]
        one = next(verdicts)
        outcome.verdicts.append({**one, "why": one["why"] or "; ".join(why for why, _ in amounts)})
        if one["status"] == FAIL:
            known = sum(amount for _, amount in amounts)
            outcome.wrong.append(f"{text}: released {one['measured']:,} bytes, the scenario {here:,}, explained {known:+,}, unexplained {one['measured'] - here - known:+,}")
        elif one["status"] == PASS:
            outcome.equal += one["measured"] == here
            outcome.explained += one["measured"] != here
            for why, amount in amounts if one["measured"] != here else ():
                outcome.amounts.setdefault(why, set()).add(amount)
    outcome.compared = sum(one["status"] in (PASS, FAIL) for one in outcome.verdicts)
    return outcome
