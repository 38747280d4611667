"""`tidemark.run`: a program under `tidemark exec`, and its peaks as Python objects; the cell magic %%tidemark of notebooks."""
from __future__ import annotations

import html
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from tidemark import files
from tidemark.executable import executable
from tidemark.settings import FLAGS
from tidemark.verdict import Misuse

COLUMNS = ("allocated", "active", "reserved", "requested", "retries", "ooms")


class Run:
    """A program that has run. `peaks` and `alive` are lists of dicts with the same keys, which pandas.DataFrame takes; all sizes are bytes."""

    def __init__(self, report: dict[str, Any], folder: str, output: str, kept: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.folder = folder  #: the folder of the report; without `report=` it is removed with this object
        self.output = output  #: what the program and tidemark have written
        self._report, self._kept = report, kept
        self._programs: list[dict[str, Any]] = [{**trial["program"], "schedule": trial["schedule"], "alive": trial.get("alive")} for trial in report["trials"]]
        #: the program's exit code, or that of a check
        self.exit_code: int = next((one["exit_code"] for one in self._programs if one["exit_code"]), 0)

    @property
    def peaks(self) -> list[dict[str, Any]]:
        """The peaks of PyTorch's caching allocator, a row for each device of each process and schedule: schedule, rank, pid, device, allocated,
        active, reserved, requested (bytes), retries, ooms. Empty where the program has recorded no CUDA memory."""
        return [{"schedule": program["schedule"], "rank": one["rank"], "pid": one["pid"], "device": device["device"], **{name: device[name] for name in COLUMNS}}
                for program in self._programs for one in program["ranks"] for device in one["devices"]]

    @property
    def alive(self) -> list[dict[str, Any]]:
        """What is alive at the highest peak of active memory, the largest first: schedule, where, kind, module, line, count (blocks), bytes (as
        requested)."""
        rows = [{"schedule": program["schedule"], "where": program["alive"]["where"], **{name: part[name] for name in ("kind", "module", "line", "count", "bytes")}}
                for program in self._programs if program.get("alive") for part in program["alive"]["parts"]]
        return sorted(rows, key=lambda row: -row["bytes"])

    @property
    def peak(self) -> int:
        """The highest reserved bytes of any device: what a GPU must have. Raises Misuse where nothing was recorded."""
        if not self.peaks:
            raise Misuse("tidemark.run: the program has recorded no CUDA memory: Run.output says what it wrote")
        return int(max(row["reserved"] for row in self.peaks))

    def __repr__(self) -> str:
        rows = [f"rank {row['rank']}" if row["rank"] is not None else f"process {row['pid']}" for row in self.peaks]
        lines = [f"{name}: {row['allocated']:,} bytes allocated, {row['reserved']:,} reserved" for name, row in zip(rows, self.peaks)]
        return "\n".join([f"exit code {self.exit_code}", *(lines or ["no CUDA memory was recorded"])])

    def _repr_html_(self) -> str:
        """The report's page, in a frame of its own."""
        with open(os.path.join(self.folder, "report.html"), encoding="utf-8") as file:
            return f'<iframe style="width:100%;height:640px;border:0" srcdoc="{html.escape(file.read())}"></iframe>'


def run(program: str | Sequence[str | os.PathLike[str]], *, gpu: str | None = None, capacity: str | int | None = None, schedule: str | Sequence[str] | None = None,
        mode: str | None = None, ranks: int | None = None, as_rank: Sequence[int] | None = None, of: int | None = None, devices: int | None = None,
        races: bool = False, report: str | os.PathLike[str] | None = None, cwd: str | os.PathLike[str] | None = None) -> Run:
    """Runs a PyTorch program on the virtual GPU, as `tidemark exec` does: `tidemark.run(["train.py", "--batch", "8"], gpu="l4-24g")`.

    A program whose first word ends with .py runs in this Python. The keywords are the flags of `tidemark exec`; `capacity` is bytes, or as in
    "6GiB". `report` is an empty folder that keeps the report. A program that fails is no exception: see Run.exit_code and Run.output.

    Raises Misuse, with tidemark's own line, where the program was not started."""
    words = [os.fspath(word) for word in ([program] if isinstance(program, str) else program)]
    if not words:
        raise Misuse("tidemark.run: no program is given")
    if words[0].endswith(".py"):
        words.insert(0, sys.executable)
    kept = None if report is not None else tempfile.TemporaryDirectory(prefix="tidemark-run-")
    folder = os.path.abspath(os.fspath(report)) if report is not None else os.path.join(kept.name if kept else "", "report")
    given = {"gpu": gpu, "capacity": capacity, "schedule": ",".join(schedule) if isinstance(schedule, (list, tuple)) else schedule, "mode": mode, "ranks": ranks,
             "as-rank": ",".join(map(str, as_rank)) if as_rank is not None else None, "of": of, "devices": devices, "races": "on" if races else None}
    flags = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    done = subprocess.run([executable(), "exec", *flags, "--report", folder, "--", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False, cwd=cwd)
    try:
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            record = json.load(file)
    except FileNotFoundError:
        lines = [line for line in done.stdout.splitlines() if line.startswith("error: ")] or done.stdout.splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise Misuse(f"tidemark.run: {lines[0].removeprefix('error: ')}") from None
    made = Run(record, folder, done.stdout, kept)
    made.exit_code = made.exit_code or done.returncode
    return made


def load_ipython_extension(ipython: Any) -> None:
    """%load_ext tidemark: the cell magic %%tidemark runs a cell as a program of its own, with the flags of `tidemark exec` in its first line:
    %%tidemark --gpu l4-24g --ranks 2."""
    def magic(line: str, cell: str) -> Run:
        words = shlex.split(line)
        given: dict[str, Any] = {}
        while words:
            flag = words.pop(0)
            name = flag.removeprefix("--").replace("-", "_") if flag.startswith("--") else ""
            if name not in FLAGS or not words:
                raise Misuse(f"%%tidemark: {flag} is not a flag with a value (there are: {', '.join('--' + one for one in FLAGS)})")
            value = words.pop(0)
            given[name] = value == "on" if name == "races" else value
        with tempfile.TemporaryDirectory(prefix="tidemark-cell-") as folder:
            path = os.path.join(folder, "cell.py")
            with files.create(path) as file:
                file.write(cell)
            done = run([path], **given)
        if done.exit_code:
            print(done.output)
        return done

    ipython.register_magic_function(magic, "cell", "tidemark")
