"""Goldens: the peaks of a test in a file beside it, which reviewers read and `pytest --tidemark-update` writes. Each phase has its peaks by
statistic, and the highest peak what is alive there by kind, in bytes."""
from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from tidemark import alive, files
from tidemark import verdict as verdicts
from tidemark.allocator import STATISTICS, Phase
from tidemark.toml import TomlError, read
from tidemark.verdict import Misuse, Record, Verdict

HEAD = "# Bytes. Written by `pytest --tidemark-update`; do not edit.\n"
SHOWN = 12  # differences in a failure


def taken(of: Sequence[Phase], test: Mapping[str, int]) -> Record:
    """What a golden has of this rank, of its phases and of the peaks of the whole test: {"phases": {name: {statistic: bytes}}, "alive at the peak": {kind: bytes}}."""
    phases: Record = {}
    for one in of:
        of_phase = phases.setdefault(one.name, dict.fromkeys(STATISTICS, 0))
        for name in STATISTICS:
            of_phase[name] = max(of_phase[name], one.peak[name])
    phases["test"] = dict(test)
    return {"phases": phases, "alive at the peak": alive.kinds()}


def place(folder: str, nodeid: str, name: str) -> str:
    """goldens/test_module.test_name[.name].toml in the folder of the test. A name that is not one of a file is told apart by a hash."""
    path, _, test = nodeid.partition("::")
    wanted = f"{os.path.splitext(os.path.basename(path))[0]}.{test}" + (f".{name}" if name else "")
    plain = re.sub(r"[^A-Za-z0-9_.,=+-]+", "_", wanted).strip("_")
    if plain != wanted:
        plain += "-" + hashlib.sha256(wanted.encode()).hexdigest()[:6]
    return os.path.join(folder, "goldens", plain + ".toml")


def text_of(ranks: dict[int, Record], made_with: Record) -> str:
    """The file. Ranks that are alike are written once."""
    alike = all(one == next(iter(ranks.values())) for one in ranks.values())
    sections = {"every rank": next(iter(ranks.values()))} if alike else {f"rank {rank}": one for rank, one in sorted(ranks.items())}
    lines = ["[made with]"] + [f"{key} = {written(value)}" for key, value in made_with.items()]
    for section, one in sections.items():
        for phase, peaks in one["phases"].items():
            lines += ["", f"[{quoted(section)}.phases.{quoted(phase)}]", *(f"{name} = {written(peaks[name])}" for name in STATISTICS)]
        lines += ["", f'[{quoted(section)}."alive at the peak"]', *(f"{quoted(kind)} = {written(size)}" for kind, size in one["alive at the peak"].items())]
    body = "\n".join(lines).replace("[made with]", '["made with"]') + "\n"
    return HEAD + f'digest = "{digest(body)}"\n\n' + body


def digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def quoted(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def written(value: Any) -> str:
    return f"{value:_}" if isinstance(value, int) else quoted(str(value))


def write(path: str, text: str) -> bool:
    """Writes the file whole or not at all; False where it is so already."""
    if os.path.exists(path):
        if files.read(path) == text:
            return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(path), suffix=".new", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
    return True


def update(folder: str, nodeid: str, records: Sequence[Record]) -> list[str]:
    """Writes the goldens of a test from what its ranks have said; returns those that have changed."""
    changed = []
    for name in sorted({name for record in records for name in record["goldens"]}):
        of_ranks = {record["rank"]: record["goldens"][name] for record in records if name in record["goldens"]}
        path = place(folder, nodeid, name)
        if write(path, text_of(of_ranks, records[0]["made_with"])):
            changed.append(path)
    return changed


def load(path: str, rank: int) -> tuple[Record, Record]:
    """(what the golden says of this rank, what it was made with). Raises Misuse where it cannot be used."""
    again = "run pytest --tidemark-update"
    try:
        content = read(path)
    except TomlError as error:
        raise Misuse(f"the golden {path} cannot be read: {error}: {again}") from None
    _, _, body = files.read(path).partition("\n\n")
    if content.get("digest") != digest(body):
        raise Misuse(f"the golden {path} was edited by hand: {again}, and look at the difference")
    golden = content.get("every rank", content.get(f"rank {rank}"))
    if not is_golden(golden) or not isinstance(content.get("made with"), dict):
        raise Misuse(f"the golden {path} cannot be read: a figure or a table in it is of another type: {again}")
    if golden is None:
        raise Misuse(f"the golden {path} has nothing of rank {rank}: {again}")
    return golden, content["made with"]


def is_golden(one: Any) -> bool:
    """Whether it is what `taken` makes, or nothing: tables of figures."""
    def of_figures(table: Any) -> bool:
        return isinstance(table, dict) and all(type(value) is int for value in table.values())

    return one is None or (isinstance(one, dict) and isinstance(one.get("phases"), dict) and all(map(of_figures, one["phases"].values()))
                           and of_figures(one.get("alive at the peak")))


def verdict(order: Record, name: str, measured: Record, made_with: Record, rank: int) -> Verdict:
    """Verdict whether the test has the peaks of its golden."""
    path = place(order["goldens"], order["nodeid"], name)
    label = "golden/" + (name or "peaks")
    if not os.path.exists(path):
        return verdicts.verdict(label, verdicts.FAIL, unit="", rank=rank, why=f"there is no golden {path}: pytest --tidemark-update writes it")
    golden, before = load(path, rank)
    lines = differences(golden, measured)
    if not lines:
        return verdicts.verdict(label, verdicts.PASS, unit="", rank=rank)
    causes = [f"made with {key} {before.get(key)}, and this is {value}" for key, value in made_with.items() if before.get(key) != value]
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return verdicts.verdict(label, verdicts.FAIL, unit="", rank=rank, why="\n".join([path, *causes, *lines[:SHOWN], *more, "if this is wanted: pytest --tidemark-update"]))


def differences(golden: Record, measured: Record) -> list[str]:
    """A line for each figure that differs, the largest difference first."""
    changes: list[tuple[int, str]] = []
    sides = [figures(golden), figures(measured)]
    for key in {**sides[0], **sides[1]}:
        before, after = sides[0].get(key), sides[1].get(key)
        if before != after:
            change = f" ({after - before:+,})" if before is not None and after is not None else ""
            changes.append((abs((after or 0) - (before or 0)), f"{key[0]}, {key[1]}: {figure(before)} -> {figure(after)}{change}"))
    return [line for _, line in sorted(changes, key=lambda one: -one[0])]


def figures(one: Record) -> dict[tuple[str, str], int]:
    values = {(f"phase {phase}", name): size for phase, peaks in one["phases"].items() for name, size in peaks.items()}
    values.update({("alive at the peak", kind): size for kind, size in one["alive at the peak"].items()})
    return values


def figure(size: int | None) -> str:
    return "not there" if size is None else f"{size:,}"
