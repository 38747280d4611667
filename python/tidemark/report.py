"""The tests of a pytest run as trials of tidemark's record (tidemark report --schema), for --tidemark-report: each test is a trial, a pair one with
its variants. `tidemark report` writes report.json and the page of them."""
from __future__ import annotations

import datetime
import fcntl
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from tidemark import files, launch
from tidemark.executable import executable
from tidemark.settings import Settings
from tidemark.verdict import FAIL, PASS, Misuse, Record, Verdict, verdict
from tidemark.version import __version__

STATISTICS = ("allocated", "active", "reserved", "requested")
FAMILIES = {"races": "race", "growth": "rest/growth", "caught": "control"}  # in the words of reports
MODES, SCHEDULES = ("known", "math", "shapes"), ("calibrated", "instant", "lagging", "random")  # the defaults first
ENDED = ("failure/ended", "failure/exception")
TOO_EARLY = "pytest ended before its last test"


def attach(reports: Any, results: dict[str, launch.Said], roles: dict[str, str], settings: Settings, verdicts: Sequence[Verdict] = ()) -> None:
    """Leaves with pytest's reports, as plain data, what a trial needs."""
    for one in reports:
        one.tidemark_trial = {"roles": roles, "records": {name: list(each.records.values()) for name, each in results.items()}, "verdicts": list(verdicts),
                              "whats": {name: what_of(each) for name, each in results.items()},
                              "settings": {key: value for key, value in settings.items() if key != "pair"}}


def what_of(result: launch.Said) -> str:
    """Torch and commit of a variant with its own place."""
    record = next((one for one in result.records.values() if one), None)
    return ", ".join(([f"torch {record['run']['torch']}"] if record else []) + ([result.place.commit] if result.place.commit else [])) if result.place.elsewhere else ""


class Trials:
    """tests.jsonl of a report's folder: the trial of each test that has ended, a line each, and what is known of the run, of which the last line holds. `tidemark report`
    makes the report of it, also if this process is killed, but not as long as it lives."""

    def __init__(self, folder: Any, argv: list[str], begun: datetime.datetime) -> None:
        self.folder, self.argv, self.begun = folder, argv, begun
        os.makedirs(folder, exist_ok=True)
        self.lines = files.create(os.path.join(folder, "tests.jsonl"))
        fcntl.flock(self.lines, fcntl.LOCK_EX)

    def add(self, **line: Record) -> None:
        """`trial` or `run`."""
        self.lines.write(json.dumps(line) + "\n")
        self.lines.flush()

    def add_run(self, ended: str, /, **known: Any) -> None:
        """`ended`: how it ended before its last test, or ""; `known`: fields of a report's run."""
        now = datetime.datetime.now(datetime.timezone.utc)
        self.add(run={"tidemark": "", "git": "", "host": "", "device": {"kind": "virtual", "profile": "", "capacity_bytes": 0}, "torch": "", "nccl": "", "mpi": "",
                      "id": f"{self.begun:%Y%m%d-%H%M%S}", **known, "started": f"{self.begun:%Y-%m-%dT%H:%M:%SZ}",
                      "duration_ns": int((now - self.begun).total_seconds() * 1e9), "argv": self.argv, "env": {}, "ended": ended})

    def finish(self, tidemark: Any) -> None:
        """Raises OSError or CalledProcessError where the executable `tidemark` makes no report of it."""
        self.lines.close()
        subprocess.run([tidemark, "report", self.folder], check=True, capture_output=True)


class Writer:
    """A plugin of pytest that adds each test to the report's folder when it has ended."""

    def __init__(self, config: pytest.Config) -> None:
        self.folder, self.tests, self.argv = config.getoption("tidemark_report"), {}, ["pytest", *map(str, config.invocation_params.args)]
        self.begun, self.run_facts = datetime.datetime.now(datetime.timezone.utc), {}
        if self.folder and os.path.exists(self.folder) and (not os.path.isdir(self.folder) or os.listdir(self.folder)):
            raise pytest.UsageError(f"--tidemark-report {self.folder}: is not an empty folder: name another")

    def pytest_sessionstart(self) -> None:
        if not self.folder:
            return
        try:
            self.trials = Trials(self.folder, self.argv, self.begun)
        except OSError as error:
            raise pytest.UsageError(f"--tidemark-report {self.folder}: cannot be written or locked: {error.strerror}: name another folder") from None
        self.add_run(TOO_EARLY)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What a trial needs; of the phases of a test the first that did not pass says how it ended."""
        if not self.folder or not hasattr(report, "tidemark_trial"):
            return
        test = self.tests.setdefault(report.nodeid, {"outcome": "passed", "why": ""})
        test.update(report.tidemark_trial)
        if not report.passed and test["outcome"] == "passed":
            test["outcome"] = "error" if report.failed and report.when != "call" else report.outcome
            test["why"] = why_of(report)
        test["alive"] = getattr(report, "tidemark_alive", None) or test.get("alive")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        test = self.tests.pop(nodeid, None)
        if test is None:
            return
        self.trials.add(trial=trial(nodeid, test))
        if not self.run_facts:
            self.run_facts = next((record["run"] for records in test["records"].values() for record in records if record), {})
            self.add_run(TOO_EARLY)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if not self.folder:
            return
        self.add_run({pytest.ExitCode.INTERRUPTED: "pytest was interrupted", pytest.ExitCode.INTERNAL_ERROR: "pytest itself failed"}.get(exitstatus, ""))
        try:
            self.trials.finish(executable())
        except (Misuse, OSError, subprocess.CalledProcessError) as error:
            message = (getattr(error, "stderr", b"") or b"").decode(errors="replace").strip() or error
            print(f"\ntidemark: the report of {self.folder} was not written, and can be by `tidemark report {shlex.quote(str(self.folder))}`: {message}")

    def add_run(self, ended: str) -> None:
        self.trials.add_run(ended, id=f"{self.begun:%Y%m%d-%H%M%S}-{os.getpid()}", tidemark=__version__, host=platform.node(), torch=self.run_facts.get("torch", ""),
                            nccl=self.run_facts.get("nccl", ""),
                            device={"kind": "virtual", "profile": self.run_facts.get("profile", ""), "capacity_bytes": self.run_facts.get("capacity_bytes", 0)})


def why_of(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    crash = getattr(longrepr, "reprcrash", None)
    text = crash.message if crash else longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    line = " ".join(text.split())
    return line if len(line) <= 500 else line[:497].rsplit(" ", 1)[0] + " ..."


def trial(name: str, test: Record) -> Record:
    settings, verdicts = test["settings"], [as_recorded(one) for one in test["verdicts"] if test["roles"][one["variant"]] != "control" or
                                            one["name"].startswith("caught/")]
    first = next((record for records in test["records"].values() for record in records if record), None)
    failed = any(one["status"] == FAIL for one in verdicts)
    if test["outcome"] == "failed" and not failed:  # by an assertion of its own
        verdicts.append(verdict("run", FAIL, variant="test" if "test" in test["roles"] else next(iter(test["roles"])), why=test["why"]))
    elif test["outcome"] == "passed" and not verdicts:
        verdicts.append(verdict("run", PASS, variant=next(iter(test["roles"]))))
    error = test["why"] if test["outcome"] == "error" else None
    skipped = test["why"] if test["outcome"] == "skipped" else None
    variants = [] if skipped else [variant(one, role, test["records"].get(one, []), error, test["whats"].get(one, "")) for one, role in test["roles"].items()]
    return {"scenario": name, "size": "test", "mode": one_of(MODES, settings.get("mode")), "schedule": first["run"]["schedule"] if first else one_of(SCHEDULES, settings.get("schedule")),
            "ranks": settings.get("of") or settings.get("ranks") or 1, "steps": max((len(record["held"]) for records in test["records"].values() for record in records if record),
                                                                                   default=0),
            "seed": 0, "params": {}, "skipped": skipped, "variants": variants, "verdicts": [] if skipped else verdicts, "story": "",
            "statistic": next((one["name"].split("/")[1] for one in verdicts if one["name"].startswith("saving/")), "allocated"), "symbols": [], **({"alive": test["alive"]} if test.get("alive") else {})}


def one_of(words: Sequence[str], word: Any) -> str:
    """`word` if it is valid, else the first of `words` (for tests that did not run)."""
    return word if word in words else words[0]


def variant(name: str, role: str, records: list[Record], error: str | None, what: str) -> Record:
    errors = [{"rank": 0, "kind": "out of memory", "text": error, "place": ""}] if error and error.startswith("torch.OutOfMemoryError: ") else []
    return {"name": name, "role": role, "error": error, **({"errors": errors} if errors else {}), "loss": [], "step_time_ns": [], "ranks": [rank(with_whole(one)) for one in records if one],
            "sweep": [], "growth": [], "what": what}


def with_whole(record: Record) -> Record:
    """The record of a test with the whole test as a phase of its last step."""
    phases = record["phases"]
    return {**record, "phases": [*phases, {**record["whole"], "step": phases[-1]["step"] if phases else 0}]}


def rank(record: Record) -> Record:
    steps = {}
    for phase in record["phases"]:
        steps.setdefault(phase["step"], []).append({"name": phase["name"], **{each: {"peak": phase["peak"][each], "end": phase["end"][each]}
                                                                             for each in STATISTICS}})
    all_steps = [{"times": 1, "phases": phases, "moments": [], "calls": []} for phases in steps.values()]
    collectives = {name: count for name, (count, _) in record["collectives"].items()}
    races = [{"first": side(race["first"]), "second": side(race["second"]), "bytes": race["bytes"], "explanation": race["explanation"],
              "kind": race["kind"]} for race in record["races"]]
    before, after = record["rest"]
    return {"rank": record["rank"], "phases": all_steps[-1]["phases"] if all_steps else [], "categories": {}, "counters": {**record["counters"], "collectives": collectives},
            "races": races, "rest": {"before": before, "after": after}, "steps": all_steps}


def side(access: Record) -> Record:
    return {"op": access["op"], "stream": access["stream"], "span": -1}


def as_recorded(one: Verdict) -> Verdict:
    family, _, rest = one["name"].partition("/")
    return {**one, "name": "run" if one["name"] in ENDED else f"{FAMILIES.get(family, family)}/{rest}"}
