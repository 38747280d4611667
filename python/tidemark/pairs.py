"""Pairs: one function that runs as a wasteful baseline, as its fixes and as controls (wrong fixes), each in a world of its own. Fixed is equal to
the baseline bit for bit, saves what its formula says, returns to rest and has no race; each control is caught by a verdict of its family."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import pytest
from _pytest.skipping import evaluate_xfail_marks

from tidemark import launch, parity, report
from tidemark import verdict as verdicts
from tidemark.settings import Settings, ranks_of
from tidemark.verdict import Misuse, Record, Verdict

Variant = Union[str, Callable[..., Any]]
FAMILIES = ("memory", "saving", "parity", "races", "rest", "growth", "failure")


class Pair:
    """The variants by name; what the function is given of each is the name, or the callable that was named."""

    def __init__(self, baseline: Variant, fixed: Sequence[Variant], controls: dict[Any, str], pythons: dict[Any, Any], commits: dict[Any, str]) -> None:
        self.baseline, self.values = name_of(baseline), {}
        self.controls = {name_of(one): family for one, family in controls.items()}
        for one in (baseline, *fixed, *controls):
            if not name_of(one):
                raise Misuse("tidemark.pair: a variant has no name")
            if name_of(one) in self.values:
                raise Misuse(f"tidemark.pair: two variants are named {name_of(one)}")
            self.values[name_of(one)] = one
        if len(self.values) < 2:
            raise Misuse("tidemark.pair: a baseline alone is not a pair: name what is fixed")
        for control, family in self.controls.items():
            if not isinstance(family, str) or family.split("/")[0] not in FAMILIES or "/" not in family:
                raise Misuse(f"tidemark.pair: the control {control} names no verdict: {family!r} is none of " + ", ".join(one + "/" for one in FAMILIES))

        self.places = {"python": {name_of(one): python for one, python in pythons.items()}, "commit": {name_of(one): commit for one, commit in commits.items()}}
        for kind, of_variants in self.places.items():
            for name, asked in of_variants.items():
                if name not in self.values:
                    raise Misuse(f"tidemark.pair: {kind}s names {name}, which is not a variant (there are: {', '.join(self.values)})")
                if not isinstance(asked, (str, os.PathLike)) or not str(asked):
                    raise Misuse(f"tidemark.pair: {kind}s[{name!r}] must be a string or path, not {asked!r}")

    def place(self, name: str) -> dict[str, str]:
        """The arguments of places.place_of."""
        return {kind: str(of_variants[name]) for kind, of_variants in self.places.items() if name in of_variants}

    def role(self, name: str) -> str:
        return "baseline" if name == self.baseline else "control" if name in self.controls else "fixed"


def name_of(variant: Variant) -> str:
    return variant if isinstance(variant, str) else variant.__name__


def pair(*, baseline: Variant, fixed: Sequence[Variant] = (), controls: Mapping[Any, str] | None = None, pythons: Mapping[Any, str | os.PathLike[str]] | None = None, commits: Mapping[Any, str] | None = None) -> Callable[[Any], Any]:
    """A decorator; the function has the parameters `variant` and `memory` and returns what has to be equal: loss, module, optimizer. `controls` says
    which family of verdicts must catch each: {"no_wait": "races/"}. A variant named in `pythons` runs in that environment (its folder or its Python; relative
    to pytest's rootdir), one in `commits` in a checkout of that commit, with today's test."""
    made = Pair(baseline, tuple(fixed), dict(controls or {}), dict(pythons or {}), dict(commits or {}))

    def decorate(test: Any) -> Any:
        test = pytest.mark.tidemark(pair=made, mode="math", races="on")(test)
        return pytest.mark.usefixtures("tidemark_platform", "tidemark_memory")(test)

    return decorate


def run(item: pytest.Item, settings: Settings) -> list[pytest.TestReport]:
    """Runs all variants and judges them; returns pytest's reports."""
    made, ranks = settings["pair"], ranks_of(settings)
    if settings["mode"] == "math" and settings.get("as_rank") is not None:
        raise Misuse("tidemark.pair: a rank without partners has no numbers to compare: use ranks instead of as_rank, or mode('known') for the memory alone")
    expected = None if item.config.option.runxfail else evaluate_xfail_marks(item)
    if expected and not expected.run:
        return [outcome(item, "setup", "skipped", "", settings, made, wasxfail="[NOTRUN] " + expected.reason)]
    results, all_verdicts, durations = {}, [], [0, 0]
    with tempfile.TemporaryDirectory(prefix="tidemark-") as whole:
        folder = {name: os.path.join(whole, str(i)) for i, name in enumerate(made.values)}
        for name in made.values:
            os.makedirs(folder[name])
            results[name] = launch.run(item, settings, variant=name, results=folder[name])
            if name == made.baseline and (skipped := skipped_by_all(results[name])):
                return [outcome(item, skipped["when"], "skipped", tuple(skipped["longrepr"]), settings, made)]
            stop_at_error(name, results[name], made)
            durations[1] += sum(max((one["duration"] for one in reports if one["when"] == "call"), default=0) for reports in results[name].reports.values())
        for name in made.values:
            mine = judge(made, name, results, ranks, folder, settings)
            for one in mine:
                one["variant"] = name
            all_verdicts += mine
            if made.role(name) == "control":
                all_verdicts.append(caught(name, made.controls[name], mine))
    wrong = [one for one in all_verdicts if one["status"] == verdicts.FAIL and made.role(one["variant"]) != "control" or one["name"].startswith("caught/")
             and one["status"] == verdicts.FAIL]
    call = outcome(item, "call", "failed" if wrong else "passed", verdicts.judged(wrong)[1] if wrong else None, settings, made, results, all_verdicts)
    call.duration = durations[1]
    if expected:
        as_expected(call, expected)
    call.sections = [("tidemark", table(made, all_verdicts))]
    if wrong:
        call.sections += [(f"tidemark exec, {name}", one.output) for name, one in results.items() if one.output.strip()]
    return [pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "setup"), call]


def outcome(item: pytest.Item, when: str, what: str, longrepr: Any, settings: Settings, made: Pair, results: Any = None, all_verdicts: Sequence[Verdict] = (), **more: Any) -> pytest.TestReport:
    """A report of pytest, with what a trial needs."""
    one = pytest.TestReport(item.nodeid, item.location, {name: 1 for name in item.keywords}, what, longrepr, when)
    vars(one).update(more)
    report.attach([one], results or {}, {name: made.role(name) for name in made.values}, settings, all_verdicts)
    return one


def as_expected(call: pytest.TestReport, expected: Any) -> None:
    """A failure that the mark xfail expects, as pytest reports it."""
    if call.failed and (expected.raises is None or issubclass(AssertionError, expected.raises)):
        call.outcome, call.wasxfail = "skipped", expected.reason
    elif call.passed and expected.strict:
        call.outcome, call.longrepr = "failed", "[XPASS(strict)] " + expected.reason
    elif call.passed:
        call.wasxfail = expected.reason


def skipped_by_all(result: launch.Said) -> Record | None:
    """The report of a skip of every rank, or None."""
    skips = [next((one for one in reports if one["outcome"] == "skipped"), None) for reports in result.reports.values()]
    return skips[0] if skips and all(skips) and not result.problems else None


def stop_at_error(name: str, result: launch.Said, made: Pair) -> None:
    """A variant that says nothing about the pair ends it with an error; only a control may end by itself."""
    for reports in result.reports.values():
        for one in reports:
            if one["outcome"] == "failed" and (one.get("tidemark_kind") in ("refused", "misuse") or one["when"] != "call"):
                raise Misuse(f"{name}: {message_of(one)}")
            if one["outcome"] == "skipped":
                raise Misuse(f"{name}: a variant of a pair was skipped")
    if result.problems and made.role(name) != "control":
        rank, line, _ = result.problems[0]
        raise Misuse(f"{name}: {line}" if len(result.reports) == 1 else f"{name}: rank {rank}: {line}")


def message_of(report: Record) -> str:
    longrepr = report["longrepr"]
    crash = longrepr.get("reprcrash") if isinstance(longrepr, dict) else None
    return crash["message"] if crash else str(longrepr).strip().splitlines()[-1]


def judge(made: Pair, name: str, results: dict[str, launch.Said], ranks: list[int], folder: dict[str, str], settings: Settings) -> list[Verdict]:
    judgements = []
    for rank, line, _ in results[name].problems:
        judgements.append(verdicts.verdict("failure/ended", verdicts.FAIL, why=line, unit="", rank=rank))
    for rank in ranks:
        for one in results[name].reports[rank]:
            if one["outcome"] == "failed":
                judgements.append(verdicts.verdict("failure/exception", verdicts.FAIL, why=message_of(one), unit="", rank=rank))
        record, base = results[name].records[rank], results[made.baseline].records[rank]
        if record is None:
            continue
        judgements += record["verdicts"]
        if made.role(name) == "baseline":
            continue
        if record["savings"]:
            judgements += verdicts.judged([saving(one, base, record) for one in record["savings"]])[0]
        if settings["mode"] == "math":
            places = [os.path.join(folder[variant], f"rank{rank}") for variant in (made.baseline, name)]
            judgements.append(parity.compare(*places, rank, made.role(name) == "control"))
        else:
            judgements.append(verdicts.verdict("parity/bits", verdicts.SKIP, why=f"mode {settings['mode']} has no numbers to compare", rank=rank))
    return judgements


def peak_of(record: Any, wanted: Record) -> int | None:
    return max((one["peak"][wanted["statistic"]] for one in record["phases"] if one["name"] == wanted["phase"]), default=None)


def saving(wanted: Record, base: Record, record: Record) -> Verdict:
    name = f"saving/{wanted['statistic']}/{wanted['phase']}"
    before, after = peak_of(base, wanted), peak_of(record, wanted)
    if before is None:
        raise Misuse(f"memory.saving: the baseline has no phase '{wanted['phase']}'")
    return verdicts.equality(name, before - after, wanted["formula"], wanted["values"], record["rank"])


def caught(name: str, family: str, mine: list[Verdict]) -> Verdict:
    by = [one for one in mine if one["status"] == verdicts.FAIL and one["name"].startswith(family)]
    others = sorted({one["name"] for one in mine if one["status"] == verdicts.FAIL})
    why = f"by {by[0]['name']}" if by else f"no verdict of {family} has failed; " + (f"{', '.join(others)} have" if others else "all verdicts hold")
    return verdicts.verdict(f"caught/{family}", verdicts.PASS if by else verdicts.FAIL, variant=name, why=why, unit="")


def table(made: Pair, all_verdicts: Sequence[Verdict]) -> str:
    lines = []
    for name in made.values:
        mine = [one["status"] for one in all_verdicts if one["variant"] == name and not one["name"].startswith("caught/")]
        counts = ", ".join(f"{mine.count(status)} {status}" for status in ("pass", "fail", "skip") if status in mine) or "no verdicts"
        by = [one["why"] for one in all_verdicts if one["variant"] == name and one["name"].startswith("caught/") and one["status"] == verdicts.PASS]
        lines.append(f"{name:20} {made.role(name):9} {counts}" + (f"; caught {by[0]}" if by else ""))
    return "\n".join(lines)
