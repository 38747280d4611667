"""Decorators of a test: how its body runs on the virtual platform. Each is pytest's mark `tidemark` with a keyword, so that classes and
modules can have them too (`pytestmark`), and the nearest one counts."""
import pytest

from tidemark.formula import Misuse


class Setting:
    """A decorator and, through `.mark`, an item of `pytestmark`."""

    def __init__(self, **keywords):
        self.decorator = pytest.mark.tidemark(**keywords)
        self.mark = self.decorator.mark

    def __call__(self, test):
        # A test of which the plugin does not know never runs: this fixture is missing then.
        return pytest.mark.usefixtures("tidemark_platform")(self.decorator(test))


def ranks(count):
    """The body runs in so many processes, with the variables that torchrun sets."""
    return Setting(ranks=count, as_rank=None)


def as_rank(*ranks, of):
    """The body runs as each of these ranks of `of`, without partners."""
    return Setting(as_rank=list(ranks), of=of, ranks=None)


def gpu(profile):
    return Setting(gpu=profile)


def capacity(size):
    """Memory of each GPU: bytes, or as in "6GiB"."""
    return Setting(capacity=str(size))


def devices(count):
    """GPUs that a process sees."""
    return Setting(devices=count)


def schedule(name):
    """How far the device is behind the host: instant, calibrated, lagging, random."""
    return Setting(schedule=name)


def mode(name):
    """known (the default), math or shapes."""
    return Setting(mode=name)


def sizes(policy):
    """Mode known: sizes that depend on unknown values ("50%", "balanced")."""
    return Setting(sizes=policy)


def races():
    """Races are looked for (memory.no_races)."""
    return Setting(races="on")


def timeout(seconds):
    """Time-out of the whole test in seconds: the test is then ended, and its outcome is an error."""
    return Setting(timeout=seconds)


FLAGS = ("ranks", "devices", "gpu", "capacity", "schedule", "mode", "sizes", "races")
KNOWN = {*FLAGS, "as_rank", "of", "timeout", "pair"}


def settings_of(item):
    """The settings of a test by name, the nearest mark first. Raises Misuse."""
    found = {}
    for mark in item.iter_markers("tidemark"):
        if mark.args or (unknown := mark.kwargs.keys() - KNOWN):
            raise Misuse(f"tidemark: no setting {', '.join(map(str, mark.args or unknown))} (there are: {', '.join(sorted(KNOWN))})")
        for name, value in mark.kwargs.items():
            found.setdefault(name, value)
    for name, most in (("ranks", 1024), ("devices", 64), ("timeout", 86400), ("of", 1 << 20)):
        if found.get(name) is not None and (type(found[name]) is not int or not 1 <= found[name] <= most):
            raise Misuse(f"tidemark.{'as_rank' if name == 'of' else name}: {found[name]!r} is not a whole number from 1 to {most}")
    if found.get("as_rank") is not None:
        check_ranks(found["as_rank"], found.get("of"))
    return found


def check_ranks(ranks, of):
    """Those of as_rank: at least one, each once, from 0 to of - 1."""
    if of is None or not isinstance(ranks, (list, tuple)) or not ranks:
        raise Misuse("tidemark.as_rank: needs at least one rank, and of how many: as_rank(0, 511, of=512)")
    for i, rank in enumerate(ranks):
        if type(rank) is not int or not 0 <= rank < of:
            raise Misuse(f"tidemark.as_rank: {rank!r} is not a rank of {of}: ranks are 0 to {of - 1}")
        if rank in ranks[:i]:
            raise Misuse(f"tidemark.as_rank: names rank {rank} twice")


def flags_of(settings):
    """The same as flags of `tidemark exec`, which checks their values."""
    flags = []
    for name in FLAGS:
        if settings.get(name) is not None:
            flags += [f"--{name}", str(settings[name])]
    if settings.get("as_rank") is not None:
        flags += ["--as-rank", ",".join(map(str, settings["as_rank"])), "--of", str(settings["of"])]
    return flags


def ranks_of(settings):
    """The ranks that run a test, each in a process."""
    if settings.get("as_rank") is not None:
        return list(settings["as_rank"])
    return list(range(settings.get("ranks") or 1))
