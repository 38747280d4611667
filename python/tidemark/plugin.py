"""The pytest plugin: tests with tidemark's marks or fixtures run in ranks on the virtual platform, each in processes of its own; pytest itself
stays an ordinary one. In a rank's process the same plugin provides the fixtures."""
from __future__ import annotations

import errno
import os
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pytest
from _pytest.runner import CallInfo

from tidemark import alive, child, golden, launch, libraries, pairs, parity, places, pool, report
from tidemark.memory import Memory
from tidemark.settings import Settings, settings_of
from tidemark.verdict import Misuse, Record
from tidemark.version import other_distribution
from tidemark.world import World

PREPARED = pytest.StashKey[bool]()  # that this session has the libraries for its torch
RUN = "run"  # the phase of a report with the outcome error: neither setup nor teardown, whose errors pytest words as such
SHORT = ("memory", "world", "variant")
OURS = (*SHORT, "tidemark_memory", "tidemark_world", "tidemark_variant", "tidemark_platform")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidemark", "memory tests on tidemark's virtual platform")
    group.addoption("--tidemark", action="store_true", help="run all tests on the virtual platform, and not only those with its marks or fixtures")
    group.addoption("--tidemark-report", metavar="DIR", help="write a report of the tests, each a trial with its verdicts, into this empty folder")
    group.addoption("--tidemark-update", action="store_true", help="write the goldens of the tests (memory.matches_golden) instead of comparing with them")
    group.addoption("--tidemark-fresh", action="store_true", help="start a Python for every rank, instead of copies of one that has imported torch")
    parser.addini("tidemark_timeout", "seconds after which a test on the virtual platform is ended, with an error", default="600")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    libraries.wait_for_torch()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "tidemark(...): runs on the virtual platform (decorators of the package tidemark)")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(report.Writer(config), "tidemark_writer")


def pytest_report_header(config: pytest.Config) -> list[str]:
    warning = other_distribution()
    return [f"tidemark: {warning}"] if warning else []


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return ("error", "E", "ERROR") if report.failed and report.when == RUN else None


def pytest_sessionfinish() -> None:
    pool.close_all()


def is_child(config: pytest.Config) -> bool:
    return hasattr(config, "tidemark_child")


def is_ours(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs
    named = any(name in fixtures and all(one.func.__module__ == __name__ for one in fixtures[name]) for name in OURS)
    return named or item.config.getoption("tidemark") or item.get_closest_marker("tidemark") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if is_child(item.config) or not is_ours(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    begun = time.time()
    try:
        if not item.session.stash.get(PREPARED, False):
            libraries.prepare(item.config)
            item.session.stash[PREPARED] = True
            begun = time.time()
        settings = settings_of(item)
        reports = pairs.run(item, settings) if settings.get("pair") else merged(item, launch.run(item, settings), settings)
    except (Misuse, pytest.fail.Exception) as error:  # the latter of another plugin that has interrupted the wait, such as pytest-timeout
        reports = unjudged(item, str(error))
    except Exception as error:
        full = launch.no_room() if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        reports = unjudged(item, full) if full else unjudged(item, f"tidemark itself failed: {type(error).__name__}: {error}", [("tidemark", traceback.format_exc())])
    setup = next((one for one in reports if one.when in ("setup", RUN)), None)
    if setup is not None:  # what no phase of the test itself has taken: the start of the processes
        setup.duration = max(setup.duration, time.time() - begun - sum(one.duration for one in reports if one is not setup))
    own = CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), "teardown")  # fixtures that the test before has left
    if own.excinfo is not None:
        reports = [one for one in reports if one.when != "teardown"] + [pytest.TestReport.from_item_and_call(item, own)]
    for one in reports:
        item.ihook.pytest_runtest_logreport(report=one)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def unjudged(item: pytest.Item, line: str, sections: Sequence[tuple[str, str]] = ()) -> list[pytest.TestReport]:
    """The reports of a test that no rank has run."""
    reports = [problem_report(item, line, sections)]
    report.attach(reports, {}, {"test": "baseline"}, {})
    return reports


def problem_report(item: pytest.Item, line: str, sections: Sequence[tuple[str, str]] = ()) -> pytest.TestReport:
    """The outcome error, in a line."""
    return pytest.TestReport(item.nodeid, item.location, {name: 1 for name in item.keywords}, "failed", line, RUN, sections=list(sections))


def merged(item: pytest.Item, result: launch.Said, settings: Settings) -> list[pytest.TestReport]:
    """The reports of all ranks as one a phase. What says nothing about the test is an error, whatever the ranks that ended have said."""
    sections = [("tidemark exec", result.output)] if result.output.strip() else []
    if result.problems:
        rank, line, text = result.problems[0]
        name = f"rank {rank}: " if len(result.reports) > 1 and not line.startswith("rank ") else ""
        reports = [problem_report(item, f"{name}{line}", [*sections, *([("collection", text)] if text else [])])]
        report.attach(reports, {"test": result}, {"test": "baseline"}, settings)
        return reports
    reports = []
    for when in ("setup", "call", "teardown"):
        of_ranks = {rank: read_report(item, one) for rank, all_of in result.reports.items() if (one := worst(all_of, when))}
        if of_ranks:
            reports.append(merge(of_ranks, len(result.reports), sections))
    failing = [one for one in reports if one.failed]
    if any(getattr(one, "tidemark_kind", "") in ("refused", "misuse") and one.when == "call" for one in failing):
        error = next(one for one in failing if one.when == "call")
        error.when = RUN
        reports = [error]
    records = [one for one in result.records.values() if one]
    if item.config.getoption("tidemark_update") and not any(one.failed for one in reports):
        changed = golden.update(str(item.path.parent), item.nodeid, records)
        if changed and reports:
            reports[-1].sections.append(("goldens written", "\n".join(changed)))
    report.attach(reports, {"test": result}, {"test": "baseline"}, settings, [{**one, "variant": "test"} for one in result.verdicts()])
    return reports


def worst(reports: list[Record], when: str) -> Record | None:
    """The report of a phase; of two, where the test has forked and its copy went on, the one that failed."""
    return max((one for one in reports if one["when"] == when), key=lambda one: one["outcome"] == "failed", default=None)


def read_report(item: pytest.Item, data: Record) -> pytest.TestReport:
    data["location"] = tuple(data["location"])  # which JSON has made lists
    if isinstance(data["longrepr"], list):
        data["longrepr"] = tuple(data["longrepr"])
    return item.config.hook.pytest_report_from_serializable(config=item.config, data=data)


URGENCY = {"assertion": 0, "misuse": 1, "refused": 1, "exception": 2}


def merge(of_ranks: dict[int, pytest.TestReport], count: int, sections: Sequence[tuple[str, str]]) -> pytest.TestReport:
    """One report of one phase: failed where it failed on any rank, skipped where it was on all."""
    def order(rank: int) -> tuple[int, int]:
        one = of_ranks[rank]
        return ({"failed": 0, "passed": 1, "skipped": 2}[one.outcome], URGENCY.get(getattr(one, "tidemark_kind", ""), 2))

    first = min(of_ranks, key=order)
    test_report = of_ranks[first]
    test_report.duration = max(one.duration for one in of_ranks.values())
    if count > 1:
        test_report.sections = [(f"{name} (rank {rank})", text) for rank, one in of_ranks.items() for name, text in one.sections]
    if test_report.failed:
        failing = [rank for rank, one in of_ranks.items() if one.failed]
        if count > 1:
            name_ranks(test_report, first, failing, count)
        test_report.sections = [*test_report.sections, *sections]
    return test_report


def name_ranks(test_report: pytest.TestReport, first: int, failing: list[int], count: int) -> None:
    crash = getattr(test_report.longrepr, "reprcrash", None)
    if crash is None:
        test_report.longrepr = f"rank {first}: {test_report.longrepr}"
        return
    crash.message = f"rank {first}: {crash.message}"
    test_report.longrepr.addsection("ranks", f"This is rank {first}. Failed: {', '.join(map(str, failing))} of {count} ranks.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    made = yield
    if is_child(item.config) and made.failed and call.excinfo is not None:
        made.tidemark_kind = child.kind_of(call.excinfo, Misuse)
        if call.when == "call" and made.tidemark_kind != "misuse":
            add_alive(made)
    return made


def add_alive(failure: pytest.TestReport) -> None:
    """What is alive at the peak, as a section and for the report; an error of that must not hide the failure."""
    try:
        failure.tidemark_alive = alive.at_peak()
        shown = failure.tidemark_alive and alive.text(failure.tidemark_alive)
    except (Misuse, OSError, ValueError) as error:
        shown = f"not known: {error}"
    if shown:
        failure.sections.append(("alive at the highest peak, the ten largest by module and line", shown))


@pytest.fixture
def tidemark_platform(request: pytest.FixtureRequest) -> None:
    """Makes sure that the test runs on the virtual platform."""
    if not is_child(request.config) or not os.environ.get("TIDEMARK_EXEC"):
        raise Misuse("tidemark: the test does not run on the virtual platform")


@pytest.fixture
def tidemark_memory(request: pytest.FixtureRequest, tidemark_platform: None) -> Iterator[Memory]:
    """Memory of the test (tidemark.Memory)."""
    import torch

    if os.environ.get("LOCAL_RANK"):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    order = request.config.tidemark_child.order
    kept = Memory(torch, order["variant"], order)
    yield kept
    request.config.tidemark_child.write(record=kept.record())


@pytest.fixture
def tidemark_world(request: pytest.FixtureRequest, tidemark_platform: None) -> Iterator[World]:
    """The default process group, of NCCL (tidemark.World)."""
    import torch
    import torch.distributed as dist

    local = int(os.environ.get("LOCAL_RANK", 0))
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        os.environ.setdefault(name, value)
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    yield World(dist.get_rank(), dist.get_world_size(), torch.device("cuda", local))
    if not request.config.tidemark_child.failed and dist.is_initialized():  # after a failure a partner may not come
        dist.destroy_process_group()


@pytest.fixture
def tidemark_variant(request: pytest.FixtureRequest, tidemark_platform: None) -> Any:
    """The variant of a pair that this process runs: its name, or what the pair named."""
    name = request.config.tidemark_child.order["variant"]
    if name is None:
        raise Misuse("variant: only the function of a pair has one (@tidemark.pair)")
    return settings_of(request.node)["pair"].values[name]


def short(request: pytest.FixtureRequest, name: str) -> Any:
    """The fixture of another plugin that has the same short name, or else tidemark's."""
    known = request.node._fixtureinfo.name2fixturedefs[name]
    return request.getfixturevalue(name if known[0].func.__module__ != __name__ else "tidemark_" + name)


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> Memory:
    """Short name of tidemark_memory; a fixture of this name of the project or of another plugin comes first."""
    return short(request, "memory")


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """Short name of tidemark_world; likewise."""
    return short(request, "world")


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Any:
    """Short name of tidemark_variant; likewise."""
    return short(request, "variant")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """The function of a pair returns what has to be equal."""
    if not is_child(pyfuncitem.config) or pyfuncitem.config.tidemark_child.order["variant"] is None:
        return None
    settings, order = settings_of(pyfuncitem), pyfuncitem.config.tidemark_child.order
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    returned = pyfuncitem.obj(**arguments)
    kept: Memory = pyfuncitem.funcargs["tidemark_memory"]
    kept.finish()
    if order["trees"] and (modules := places.strays(*order["trees"])):
        raise Misuse(f"tidemark.pair: {order['variant']} has imported {', '.join(modules[:3])} from the working tree, not from its commit: let pytest's setting "
                     "pythonpath name the package's folder")
    if settings.get("mode") == "math":
        import torch

        parity.write(torch, returned, os.path.join(order["results"], "rank" + os.environ.get("RANK", "0")))
    return True
