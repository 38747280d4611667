"""Starts the ranks of one test under `tidemark exec` and reads what they say."""
from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from tidemark import files, pool
from tidemark.executable import executable
from tidemark.places import Place, place_of
from tidemark.settings import Settings, flags_of, ranks_of
from tidemark.verdict import Misuse, Verdict

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PATIENCE = 15  # seconds between asking the ranks to end and killing them

# Options of pytest that choose tests, or write what one process alone may write.
NOT_FOR_RANKS = {"keyword", "markexpr", "deselect", "lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip", "stepwise_reset", "xmlpath",
                 "collectonly", "usepdb", "trace", "maxfail", "numprocesses", "maxprocesses", "dist", "distload", "tx", "px", "looponfail",
                 "file_or_dir", "cov_source", "htmlpath", "durations", "cacheclear", "cacheshow", "version", "help", "tidemark_report", "pyargs",
                 "reruns", "log_file", "strict", "strict_config", "strict_markers", "tidemark_update", "tidemark_fresh"}


class Said:
    """The results of the ranks: their reports and records by rank, and why some of them did not end."""

    def __init__(self, ranks: list[int], folder: str, code: int, cause: dict[str, Any] | None, timed_out: str | None, place: Place) -> None:
        self.place, self.code, self.reports, self.records, self.problems, missing, gone = place, code, {}, {}, [], [], {}
        for rank in ranks:
            lines = read_lines(os.path.join(folder, f"rank{rank}.jsonl"))
            self.reports[rank] = [line["report"] for line in lines if "report" in line]
            self.records[rank] = next((line["record"] for line in lines if "record" in line), None)
            self.problems += [(rank, line["problem"], line.get("text", "")) for line in lines if "problem" in line]
            if not any("end" in line for line in lines):
                missing.append(rank)
            gone[rank] = [other for line in lines for other in line.get("gone", ())]
        with open(os.path.join(folder, "output"), encoding="utf-8", errors="replace") as file:
            self.output = file.read()
        failed = [rank for rank, reports in self.reports.items() if any(report["outcome"] == "failed" for report in reports)]
        if self.problems:
            return
        if failed and all(gone[rank] for rank in failed):  # a rank that had ended without a result came first
            first = gone[failed[0]][0]
            known = cause is not None and cause["process"] == f"rank {first}"
            self.problems.append((first, cause["text"] if cause and known else "the process ended before the test had", ""))
            return
        if timed_out:
            self.problems.append((missing[0] if missing else 0, timed_out, ""))
        elif (missing or code != 0) and not failed:
            self.problems.append((missing[0] if missing else 0, reason(cause, self.output, code), ""))

    def verdicts(self) -> list[Verdict]:
        return [one for record in self.records.values() if record for one in record["verdicts"]]


def read_lines(path: Any) -> list[dict[str, Any]]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def reason(cause: dict[str, Any] | None, output: str, code: int) -> str:
    """Why a test has no result, in a line: the cause that was left, and of a process that failed the last error in the output."""
    if cause and not cause["process"]:
        return str(cause["text"])
    errors = [line for line in output.splitlines() if re.match(r"error: |\w*(Error|Exception|Interrupt)\b", line)]
    if not errors and (full := no_room()):  # the output is cut, and so is the cause
        return full
    return ": ".join([cause["text"] if cause else f"the process ended with exit code {code} before the test had", *errors[-1:]])


def no_room() -> str:
    """Which of the folders of temporary files is full, in a line; "" where none is."""
    for place in (tempfile.gettempdir(), os.environ.get("TMPDIR", "")):  # Python takes another one where it cannot write there
        if os.path.isdir(place) and shutil.disk_usage(place).free < 1 << 20:
            return f"{place} is full: make room there, or set TMPDIR to another folder"
    return ""


def options_for_child(config: pytest.Config, basetemp: str) -> dict[str, Any]:
    """The options of this pytest that its children have too, as plain data."""
    options = {key: value for key, value in vars(config.option).items() if key not in NOT_FOR_RANKS and plain(value)}
    lax = [*(options.get("override_ini") or []), "strict=false", "strict_config=false", "strict_markers=false"]  # this pytest has checked them
    return {**options, "basetemp": basetemp, "usepdb": False, "dist": "no", "numprocesses": None, "tx": [], "maxfail": 0, "override_ini": lax}


def plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(plain, value))
    return value is None or isinstance(value, (str, int, float))


def run(item: pytest.Item, settings: Settings, variant: str | None = None, results: str | None = None) -> Said:
    """Runs a test in a world of its own; `variant` is that of a pair, and its results go into the folder `results`."""
    config, ranks = item.config, ranks_of(settings)
    if os.environ.get("TIDEMARK_EXEC"):
        raise Misuse("tidemark: this pytest is below a `tidemark exec` itself: start it without")
    program, limit = executable(), settings.get("timeout") or int(config.getini("tidemark_timeout"))
    asked = settings["pair"].place(variant) if variant is not None else {}
    with place_of(item, **asked) as place, tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        temporary = getattr(config, "_tmp_path_factory", None)
        basetemp = str(temporary.mktemp("tidemark")) if temporary else os.path.join(folder, "tmp")
        order = {"folder": folder, "nodeid": item.nodeid, "ranks": ranks, "variant": variant, "results": results, "path": place.path, "before": place.before,
                 "after": place.after, "trees": [str(place.tree), str(place.copy)] if place.copy else None,
                 "args": [place.at(item.path) + item.nodeid[len(item.nodeid.split("::", 1)[0]):]], "options": options_for_child(config, basetemp),
                 "markers": config.getini("markers"), "goldens": str(item.path.parent), "update": config.getoption("tidemark_update"),
                 "cwd": place.at(config.invocation_params.dir), "launched": settings.get("ranks") is not None}
        if variant is not None:
            order["options"]["runxfail"] = True  # the pair as a whole is expected to fail, and no variant
        order["options"]["rootdir"] = place.at(config.rootpath)
        order["options"]["inifilename"] = place.at(config.inipath) if config.inipath else None
        with files.create(os.path.join(folder, "order.json")) as file:
            json.dump(order, file)
        if len(ranks) > 1:
            place.environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun
        alone = config.getoption("tidemark_fresh") or config.getoption("capture") == "no" or place.elsewhere or settings.get("as_rank") is not None
        code, cause, timed_out = (run_alone if alone else run_in_server)(program, settings, order, place, limit)
        late = f"timed out after {limit} s (@tidemark.timeout, or tidemark_timeout in pytest's settings)" if timed_out else None
        return Said(ranks, folder, code, cause, late, place)


def run_alone(program: str, settings: Settings, order: dict[str, Any], place: Place, limit: int) -> tuple[int, dict[str, Any] | None, bool]:
    """(exit code, its cause, whether its time ran out) of the ranks, each a Python that `tidemark exec` starts."""
    cause = os.path.join(order["folder"], "cause")
    command = [program, "exec", *flags_of(settings), "--", place.python, os.path.join(HERE, "rank.py"), os.path.join(order["folder"], "order.json")]
    with files.create(os.path.join(order["folder"], "output")) as output:
        shown = None if order["options"].get("capture") == "no" else output
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown, env={**place.environment, **pool.cause_environment(cause)}, cwd=order["cwd"],
                                   start_new_session=True, preexec_fn=ends_with(os.getpid()))
        code, timed_out = wait(running, limit)
        return code, pool.read_cause(cause), timed_out


def run_in_server(program: str, settings: Settings, order: dict[str, Any], place: Place, limit: int) -> tuple[int, dict[str, Any] | None, bool]:
    """The same of ranks that a server with torch forks."""
    devices = settings.get("devices") or settings.get("ranks")  # as many as ranks are started
    command = [program, "exec", *flags_of({**settings, "ranks": None, "devices": devices}), "--", place.python]
    with files.append(os.path.join(order["folder"], "output")) as output:
        try:
            server = pool.server(command, place.path, place.environment, order["cwd"], ends_with(os.getpid()))
        except pool.NotStarted as error:
            output.write(error.output)
            return error.code or 3, error.cause, False
        try:
            cause, timed_out = server.run(order, limit)
        except (EOFError, OSError):
            pool.forget(server)
            text = "the server of tests ended with the ranks"
            output.write(f"error: {text}\n")
            return 3, {"code": 3, "process": "", "text": text}, False
        if cause["process"]:
            output.write(f"tidemark: {cause['text']}\n")
        return cause["code"], cause if cause["process"] else None, timed_out


def ends_with(parent: int) -> Callable[[], None]:
    """Ties the life of a process to this one: it calls this before it runs its program, and then ends when this process ends, even if this process is killed."""
    libc = ctypes.CDLL(None)

    def call() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:  # it has ended before
            os._exit(1)
    return call


def wait(running: subprocess.Popen[bytes], limit: int) -> tuple[int, bool]:
    """(exit code, whether it was ended for its time); ends the ranks with this process's own interruption."""
    try:
        return running.wait(limit), False
    except subprocess.TimeoutExpired:
        end(running)
        return running.returncode, True
    except BaseException:
        end(running)
        raise


def end(running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    try:
        running.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
