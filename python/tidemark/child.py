"""The pytest of one rank: runs one test of the pytest that started it, under `tidemark exec`, and writes its reports to a file."""
from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Generator
from typing import Any

import pytest

from tidemark import files
from tidemark.settings import settings_of
from tidemark.verdict import Misuse

GRACE = 0.5  # seconds that a rank with an exception looks whether another one has gone before
LINGER = 3  # seconds that a rank with a failure waits for the others' reports; then its end ends them


class Child:
    """A plugin of the child's pytest."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order, self.rank = order, os.environ.get("RANK", "0")
        self.file = files.create(os.path.join(order["folder"], f"rank{self.rank}.jsonl"))
        self.failed = self.ran = False
        self.write(pid=os.getpid())

    def write(self, **line: Any) -> None:
        self.file.write(json.dumps(line, default=str) + "\n")
        self.file.flush()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid == self.order["nodeid"]][:1]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed = True
            self.write(problem=f"the test cannot be collected: {str(report.longrepr).strip().splitlines()[-1]}", text=str(report.longrepr))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.ran, self.failed = True, self.failed or report.failed
        self.write(report=self.config.hook.pytest_report_to_serializable(config=self.config, report=report))
        if report.failed and len(self.order["ranks"]) > 1:
            self.look_for_others(GRACE if getattr(report, "tidemark_kind", "") == "exception" else 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
        """The limits of a test are judged after its body; those of a pair for its fixed variants."""
        done = yield
        settings, variant = settings_of(pyfuncitem), self.order["variant"]
        limited = settings.get("limit") is not None or settings.get("limit_growth") is not None
        if limited and (variant is None or settings["pair"].role(variant) == "fixed"):
            memory = pyfuncitem.funcargs["tidemark_memory"]
            failed = ""
            try:
                memory.keep_limits(settings.get("limit"), settings.get("limit_of", "reserved"), settings.get("limit_growth"))
            except AssertionError as error:
                failed = str(error)
            if failed:
                pytest.fail(failed, pytrace=False)  # no line of the test has failed
        return done

    def pytest_sessionfinish(self) -> None:
        import tidemark_imported  # of `tidemark exec`

        tidemark_imported.end()  # pytest collects once more, for errors of finalizers

    def pytest_configure(self, config: pytest.Config) -> None:
        self.config = config
        known = config.getini("markers")
        for line in self.order["markers"]:  # of plugins that are blocked here
            if line not in known:
                config.addinivalue_line("markers", line)

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException], excrepr: object) -> None:
        self.broke(excinfo.value, str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.failed = True
        self.write(problem=f"the test has ended pytest: {excinfo.typename}: {excinfo.value}".rstrip(": "))

    def broke(self, error: BaseException, text: str) -> None:
        self.failed = True
        self.write(problem=f"pytest itself failed in the rank: {type(error).__name__}: {' '.join(str(error).split())}", text=text)

    def run(self, config: pytest.Config) -> int:
        return config.hook.pytest_cmdline_main(config=config)

    def end(self) -> None:
        """No other process waits for this rank for ever, and a group that is left alive crashes when Python ends."""
        torch = sys.modules.get("torch")
        if not self.failed and torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        if not (self.ran or self.failed):
            self.failed = True
            self.write(problem="the test is not found again: its name or its parameters differ between two collections")
        self.write(end=True)
        if self.failed:
            self.wait_for_others()

    def wait_for_others(self) -> None:
        until = time.monotonic() + LINGER
        while time.monotonic() < until and not all(map(self.has_ended, self.order["ranks"])):
            time.sleep(0.05)

    def look_for_others(self, grace: float) -> None:
        """Notes ranks that are gone without an end, by a signal or an exit: this rank's failure, of a collective say, may come from that."""
        until = time.monotonic() + grace
        while not (gone := [rank for rank in self.order["ranks"] if self.is_gone(rank)]) and time.monotonic() < until:
            time.sleep(0.05)
        if gone:
            self.write(gone=gone)

    def lines(self, rank: int) -> list[dict[str, Any]]:
        try:
            with open(os.path.join(self.order["folder"], f"rank{rank}.jsonl"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def has_ended(self, rank: int) -> bool:
        return any("end" in line for line in self.lines(rank))

    def is_gone(self, rank: int) -> bool:
        lines = self.lines(rank)
        return bool(lines) and not any("end" in line for line in lines) and not is_alive(lines[0]["pid"])


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kind_of(excinfo: pytest.ExceptionInfo[BaseException], misuse: type[Misuse]) -> str:
    """Kind of an exception in a test: assertion, misuse, refused or exception. The outcome of what the platform cannot answer is an error, since
    neither passing nor failing would say something about the test."""
    from tidemark_platform import is_refusal  # of `tidemark exec`, below which this process runs

    if excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
        return "assertion"
    if excinfo.errisinstance(misuse):
        return "misuse"
    return "refused" if excinfo.errisinstance(RuntimeError) and is_refusal(excinfo.value) else "exception"


# Plugins of which the worker's half asks a server of the main process.
BLOCKED = ("terminal", "rerunfailures")


def main(order: dict[str, Any]) -> int:
    child = Child(order)
    try:
        code = child.run(configured(child))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        child.broke(error, traceback.format_exc())
        code = 3
    child.end()
    return int(code)


def configured(child: Child) -> pytest.Config:
    from _pytest.config import Config

    order, options = child.order, child.order["options"]
    options["plugins"] = [*options.get("plugins", []), *(f"no:{name}" for name in BLOCKED)]
    if options.get("basetemp"):
        os.makedirs(options["basetemp"], exist_ok=True)
        options["basetemp"] = os.path.join(options["basetemp"], "rank" + os.environ.get("RANK", "0"))
    config = Config.fromdictargs(options, order["args"])
    # The sign by which plugins that write files know that another pytest collects the results, as under xdist.
    config.workerinput = {"workerid": "tidemark", "workercount": 1, "testrunuid": "tidemark", "mainargv": order["args"]}
    config.workeroutput = {}
    config.tidemark_child = child
    config.pluginmanager.register(child, "tidemark_child")
    if not config.pluginmanager.hasplugin("tidemark.plugin") and not config.pluginmanager.hasplugin("tidemark"):
        child.write(problem="tidemark's plugin is not there in the child: load it in the same way everywhere (-p tidemark.plugin, or install the wheel)")
    return config
