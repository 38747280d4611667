"""Decorators of a test: how its body runs on the virtual platform. Each is pytest's mark `tidemark` with a keyword, so that classes and
modules can have them too (`pytestmark`), and the nearest one counts."""
from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from tidemark import toml
from tidemark.allocator import STATISTICS
from tidemark.verdict import Misuse

Settings = dict[str, Any]  # by the name of the decorator


class Setting:
    """A decorator and, through `.mark`, an item of `pytestmark`."""

    def __init__(self, **keywords: Any) -> None:
        self.decorator = pytest.mark.tidemark(**keywords)
        self.mark = self.decorator.mark

    def __call__(self, test: Any) -> Any:
        # A test of which the plugin does not know never runs: this fixture is missing then.
        return pytest.mark.usefixtures("tidemark_platform", *(["tidemark_memory"] if self.mark.kwargs.keys() & {"limit", "limit_growth"} else []))(self.decorator(test))


def ranks(count: int) -> Setting:
    """The body runs in so many processes (1 to 1,024), with the variables that torchrun sets."""
    return Setting(ranks=count, as_rank=None)


def as_rank(*ranks: int, of: int) -> Setting:
    """The body runs as each of these ranks (0 to of - 1) of a job of `of` ranks, without partners."""
    return Setting(as_rank=list(ranks), of=of, ranks=None)


def gpu(profile: str) -> Setting:
    """The virtual GPU, by the name of a profile ("h100-80g") or its file; an error of the test where there is none."""
    return Setting(gpu=profile)


def capacity(size: str | int) -> Setting:
    """Memory of each GPU in bytes, or as in "6GiB"."""
    return Setting(capacity=str(size))


def devices(count: int) -> Setting:
    """GPUs that a process sees (1 to 64)."""
    return Setting(devices=count)


def schedule(name: str) -> Setting:
    """How far the device is behind the host: instant, calibrated, lagging, random."""
    return Setting(schedule=name)


def mode(name: str) -> Setting:
    """Which values exist: known (the default), math or shapes."""
    return Setting(mode=name)


def sizes(policy: str) -> Setting:
    """Mode known: the answer for sizes that depend on unknown values ("50%", "balanced")."""
    return Setting(sizes=policy)


def races() -> Setting:
    """Races are looked for (memory.no_races)."""
    return Setting(races="on")


def timeout(seconds: int) -> Setting:
    """Time-out of the whole test in seconds (1 to 86,400): the test is then ended, and its outcome is an error."""
    return Setting(timeout=seconds)


def limit(size: str | int, *, of: str = "reserved") -> Setting:
    """The test fails where its highest peak on any rank is above this size: bytes, or as in "6GiB". `of` is the statistic: reserved, which a GPU
    must have, or allocated, active, requested. Of a pair only the fixed variants are judged. Raises Misuse where the size has no unit."""
    if of not in STATISTICS:
        raise Misuse(f"tidemark.limit: {of!r} is none of {', '.join(STATISTICS)}")
    return Setting(limit=bytes_of("limit", size), limit_of=of)


def limit_growth(size: str | int = 0) -> Setting:
    """The test fails where the bytes that it holds after each step of `memory.steps` grow by more than this a step, after the first step: bytes,
    or as in "1MiB". Raises Misuse where the size has no unit."""
    return Setting(limit_growth=bytes_of("limit_growth", size))


UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def bytes_of(name: str, size: str | int) -> int:
    """A whole number of bytes, or a text with a unit. Raises Misuse."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B|B)", size) if isinstance(size, str) else None
    if match is None:
        raise Misuse(f"tidemark.{name}: {size!r} is no size: give bytes as a number, or a text with a unit ({', '.join(UNITS)})")
    return int(Fraction(match[1]) * UNITS[match[2]])


FLAGS = ("ranks", "devices", "gpu", "capacity", "schedule", "mode", "sizes", "races")
KNOWN = {*FLAGS, "as_rank", "of", "timeout", "pair", "limit", "limit_of", "limit_growth"}
OF_PROJECT = ("gpu", "capacity", "schedule", "mode", "timeout")  # in [tool.tidemark] of pyproject.toml
PROJECT = pytest.StashKey[Settings]()


def of_project(config: pytest.Config) -> Settings:
    """The table [tool.tidemark] of the pyproject.toml in pytest's rootdir, which `tidemark exec` checks too. Raises Misuse."""
    if PROJECT not in config.stash:
        path = config.rootpath / "pyproject.toml"
        try:
            table = toml.read(str(path)).get("tool", {}).get("tidemark", {}) if path.exists() else {}
        except toml.TomlError as error:
            raise Misuse(f"{path}: {error}") from None
        if not isinstance(table, dict) or (unknown := table.keys() - set(OF_PROJECT)):
            raise Misuse(f"{path}: [tool.tidemark] has no setting {', '.join(sorted(unknown))} (there are: {', '.join(OF_PROJECT)})"
                         if isinstance(table, dict) else f"{path}: [tool.tidemark] must be a table")
        config.stash[PROJECT] = table
    return config.stash[PROJECT]


def settings_of(item: pytest.Item) -> Settings:
    """The settings of a test by name, the nearest mark first. Raises Misuse."""
    settings: Settings = {}
    for mark in item.iter_markers("tidemark"):
        if mark.args or (unknown := mark.kwargs.keys() - KNOWN):
            raise Misuse(f"tidemark: no setting {', '.join(map(str, mark.args or unknown))} (there are: {', '.join(sorted(KNOWN))})")
        for name, value in mark.kwargs.items():
            settings.setdefault(name, value)
    for name, value in of_project(item.config).items():
        settings.setdefault(name, value)
    for name, most in (("ranks", 1024), ("devices", 64), ("timeout", 86400), ("of", 1 << 20)):
        if settings.get(name) is not None and (type(settings[name]) is not int or not 1 <= settings[name] <= most):
            raise Misuse(f"tidemark.{'as_rank' if name == 'of' else name}: {settings[name]!r} is not a whole number from 1 to {most}")
    if settings.get("as_rank") is not None:
        check_ranks(settings["as_rank"], settings.get("of"))
    return settings


def check_ranks(ranks: Sequence[int], of: int | None) -> None:
    """Those of as_rank: at least one, each once, from 0 to of - 1."""
    if of is None or not isinstance(ranks, (list, tuple)) or not ranks:
        raise Misuse("tidemark.as_rank: needs at least one rank, and of how many: as_rank(0, 511, of=512)")
    for i, rank in enumerate(ranks):
        if type(rank) is not int or not 0 <= rank < of:
            raise Misuse(f"tidemark.as_rank: {rank!r} is not a rank of {of}: ranks are 0 to {of - 1}")
        if rank in ranks[:i]:
            raise Misuse(f"tidemark.as_rank: names rank {rank} twice")


def flags_of(settings: Settings) -> list[str]:
    """The same as flags of `tidemark exec`, which checks their values."""
    flags = []
    for name in FLAGS:
        if settings.get(name) is not None:
            flags += [f"--{name}", str(settings[name])]
    if settings.get("as_rank") is not None:
        flags += ["--as-rank", ",".join(map(str, settings["as_rank"])), "--of", str(settings["of"])]
    return flags


def ranks_of(settings: Settings) -> list[int]:
    """The ranks that run a test, each in a process."""
    if settings.get("as_rank") is not None:
        return list(settings["as_rank"])
    return list(range(settings.get("ranks") or 1))
