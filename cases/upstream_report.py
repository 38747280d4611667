"""The rows of ci/upstream as an ordinary report of tidemark (tidemark report --schema), for --report: each row is a trial of the scenario, with the released
code as a variant beside it. `tidemark report` renders it, `tidemark compare` holds two together."""
import datetime
import sys

from upstream import RELEASED, TIDEMARK

from tidemark.report import Trials, rank
from tidemark.verdict import verdict


class Writer:
    def __init__(self, folder):
        self.folder, self.trials, self.run = folder, None, {}
        self.begun, self.argv = datetime.datetime.now(datetime.timezone.utc), ["ci/upstream", *sys.argv[1:]]

    def begin(self):
        """Before the first trial; a mistake in the words leaves no folder."""
        if self.trials is None:
            self.trials = Trials(self.folder, self.argv, self.begun)
            self.add_run("ci/upstream ended before its last row")

    def add_run(self, ended=""):
        self.trials.add_run(ended, **{**self.run, "id": f"{self.begun:%Y%m%d-%H%M%S}", "torch": ""})

    def add_trial(self, made):
        if self.folder:
            self.begin()
            self.trials.add(trial=made)

    def add(self, scenario, rows, problem):
        """Rows that have ended in an error."""
        for row in rows:
            self.add_trial(trial(scenario, row, None, [], problem))

    def skip(self, scenario, rows, reason):
        """Rows that were not run."""
        for row in rows:
            self.add_trial({**trial(scenario, row, None, [], ""), "skipped": reason, "variants": []})

    def add_row(self, scenario, row, outcome, ranks):
        report = outcome.report or {"trials": [None], "run": self.run}
        self.run = report["run"]
        problem = "" if outcome.verdicts else "; ".join(outcome.wrong)
        self.add_trial(trial(scenario, row, report["trials"][0], outcome.verdicts, problem,
                             [rank(one["record"]) for one in ranks if "record" in one]))

    def add_tests(self, file, torch, devices, verdicts):
        """A file of tests, each a verdict: (name, status, why)."""
        variant = {"name": RELEASED, "role": "fixed", "error": None, "loss": [], "step_time_ns": [], "ranks": [], "sweep": [], "growth": [], "what": f"released code: {file}, torch {torch}"}
        self.add_trial({"scenario": file, "size": "test", "mode": "math", "schedule": "calibrated", "ranks": devices, "steps": 0, "seed": 0, "params": {}, "skipped": None,
                        "variants": [variant], "story": "", "statistic": "allocated", "symbols": [],
                        "verdicts": [verdict(f"run/{name}", status, variant=RELEASED, why=why) for name, status, why in verdicts]})

    def finish(self):
        """Has `tidemark report` make the report."""
        if self.folder:
            self.begin()
            self.add_run()
            self.trials.finish(TIDEMARK)


def trial(scenario, row, record, verdicts, problem, ranks=()):
    """The trial of a row. `record`: the scenario's trial as its report has it, None where it has not run."""
    base = record or {"size": row.size, "mode": "shapes", "schedule": row.schedule, "ranks": row.ranks, "steps": row.steps, "seed": 0, "params": dict(row.parameters),
                     "story": "", "statistic": "active", "symbols": []}
    ours = [{**each, "role": "baseline", "files": []} for each in base.get("variants", []) if each["name"] == row.variant]
    theirs = {"name": RELEASED, "role": "fixed", "error": problem or None, "loss": [], "step_time_ns": [], "ranks": list(ranks), "sweep": [], "growth": [],
              "what": f"released code: {row.name}, torch {row.torch}"}
    return {**base, "scenario": f"{scenario} beside torch {row.torch}", "size": row.name, "skipped": None, "variants": [*ours, theirs], "verdicts": verdicts}
