"""Plugin of pytest for ci/suite.py: it writes a JSON line to the file TIDEMARK_SUITE_EVENTS at the begin and at the end of each unit. A unit is a file, which
ends with the names of its tests, under --collect-only; else it is a test of the file TIDEMARK_SUITE_WANTED, and no other test runs."""
import json
import os
import sys

import pytest

EVENTS = os.environ["TIDEMARK_SUITE_EVENTS"]
PROCESS = os.getpid()  # a child that a test forks writes nothing
LONGEST = 8000  # characters of an error


def write(**event):
    if os.getpid() == PROCESS:
        with open(EVENTS, "a", encoding="utf-8") as events:
            events.write(json.dumps(event) + "\n")


class Collects:
    """Files and their tests. pytest imports a file and then names its tests, and goes on to the next file."""

    def __init__(self):
        self.file, self.tests, self.why = None, [], ""

    def end(self):
        if self.file and self.why:
            write(unit=self.file, outcome="failed", why=self.why)
        elif self.file:
            write(unit=self.file, outcome="collected", tests=self.tests)
        self.file, self.tests, self.why = None, [], ""

    def pytest_collectstart(self, collector):
        if type(collector).__name__ == "Module":
            self.end()
            sys.path.insert(0, str(collector.path.parent))  # of the modules that lie beside it
            self.file = collector.nodeid
            write(unit=self.file)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        try:
            return (yield)
        except SystemExit as end:  # the file's own word that it cannot run here
            write(unit=self.file, outcome="skipped", why=f"the file ends itself with {end.code} when it is imported")
            self.file = None
            return pytest.CollectReport(collector.nodeid, "passed", None, [])

    def pytest_itemcollected(self, item):
        self.tests.append(item.nodeid)

    def pytest_deselected(self, items):  # by -k, of the last file
        self.tests = [test for test in self.tests if test not in {item.nodeid for item in items}]

    def pytest_collectreport(self, report):
        if self.file and report.failed:
            self.why = str(report.longrepr)[-LONGEST:]
        elif self.file and report.skipped:
            write(unit=self.file, outcome="skipped", why=skip_reason(report))
            self.file = None

    def pytest_collection_finish(self):
        self.end()


class Runs:
    """Tests and their outcomes. An outcome stands when the test has been torn down."""

    def __init__(self):
        with open(os.environ["TIDEMARK_SUITE_WANTED"], encoding="utf-8") as wanted:
            self.wanted = set(wanted.read().splitlines())
        self.outcome, self.why, self.seconds = "passed", "", 0

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid in self.wanted]

    def pytest_runtest_logstart(self, nodeid):
        self.outcome, self.why, self.seconds = "passed", "", 0
        write(unit=nodeid)

    def pytest_runtest_logreport(self, report):
        self.seconds += report.duration
        if hasattr(report, "wasxfail"):
            pass  # the test's own word of a failure that it expects
        elif report.failed:
            self.outcome, self.why = "failed", (self.why + "\n" + error(report)).strip()[-LONGEST:]
        elif report.skipped and self.outcome == "passed":
            self.outcome, self.why = "skipped", skip_reason(report)
        if report.when == "teardown":
            write(unit=report.nodeid, outcome=self.outcome, why=self.why, seconds=round(self.seconds, 2))


def skip_reason(report):
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def error(report):
    """The place of an error and its message, whole, since that of another process has its traceback in it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{report.longreprtext[-LONGEST // 2:]}\n{crash.message[-LONGEST // 2:] if crash else ''}"


def pytest_configure(config):
    sys.path.append(str(config.rootpath))  # of its tools, behind the torch that runs
    config.pluginmanager.register(Collects() if config.option.collectonly else Runs(), "tidemark-suite")
