"""What holds objects of a program, of drawn programs in which that is known by construction; and objects that answer, raise or print when they are asked: the search asks none."""
import gc
import random
import sys
import threading
import types
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "python"))
from tidemark_holders import Holders  # noqa: E402

sys.path.pop(0)


class Module:
    """In the place of torch.nn.Module."""


TORCH = types.SimpleNamespace(nn=types.SimpleNamespace(Module=Module))


class Block:
    """In the place of a tensor."""


class Box:
    pass


class Slots:
    __slots__ = ("first", "kept")


def asked(*_, **__):
    raise SystemExit("an object of the program was asked")


class Meta(type):
    __eq__ = __instancecheck__ = __subclasscheck__ = asked
    __hash__ = type.__hash__
    __name__ = property(asked)
    __mro__ = property(asked)


class Hostile:
    """Whatever is asked of it by its own code ends the program."""
    __class__ = property(asked)
    __getattr__ = __getattribute__ = __eq__ = __ne__ = __bool__ = __len__ = __iter__ = __str__ = __repr__ = __call__ = asked

    def __init__(self):
        pass


class OfMeta(metaclass=Meta):
    pass


class Items(dict):
    items = values = keys = __iter__ = __getitem__ = __eq__ = asked


class OwnDictionary:
    __slots__ = ("kept",)
    __dict__ = property(asked)


class Text(str):
    __str__ = __eq__ = asked
    __hash__ = str.__hash__


def found(blocks):
    """Of each block the kind and the name of its holder; the list is emptied."""
    search = Holders(TORCH, (), {})
    search.own.add(id(blocks))
    weights = [1 << 20] * len(blocks)
    starts, = search.lists(1)
    starts += blocks
    blocks.clear()
    out = search.holders(starts, [1 << at for at in range(len(weights))], weights)
    return [out.get(at, ("none", "")) for at in range(len(weights))]


def hold(way, objects):
    """An object that holds these in some way."""
    holder = Box() if way != "slots" else Slots()
    if way == "list":
        return list(objects)
    if way == "tuple":
        return ({"all": tuple(objects)},)
    if way == "dictionary":
        return dict(enumerate(objects))
    if way == "closure":
        own = list(objects)
        return lambda: own
    if way == "items":
        return Items(enumerate(objects))
    holder.kept = list(objects)
    return holder


WAYS = ("list", "tuple", "dictionary", "closure", "attribute", "slots", "items")


@pytest.mark.parametrize("number", range(12))
def test_most(number):
    """Of two that hold some, and one that holds all, that one is named, whatever was made last and is nearest."""
    draws = random.Random(number)
    blocks = [Block() for _ in range(draws.randint(2, 30))]
    few, others = (draws.sample(blocks, draws.randint(1, len(blocks) - 1)) for _ in range(2))

    def serve(all_of, lru, some):
        return found(all_of.pop()), lru, some

    results = hold(draws.choice(WAYS), blocks)
    lru, some = hold(draws.choice(WAYS), few), hold(draws.choice(WAYS), others)
    few.clear()
    others.clear()
    starts = [list(blocks)]
    if draws.random() < 0.5:
        blocks.clear()
    named, _, _ = serve(starts, lru, some)
    assert {kind for kind, _ in named} == {"holder"}, named
    assert all(name.startswith(("`results` in test_most", "`blocks` in test_most")) for _, name in named), named
    del results


def test_parts():
    """Blocks that the one with most does not hold are named by what holds them."""
    cache, rest = [Block() for _ in range(6)], [Block() for _ in range(2)]
    named = found([*cache, *rest])
    assert [name.split(" ")[0] for _, name in named] == ["`cache`"] * 6 + ["`rest`"] * 2, named


@pytest.mark.parametrize("number", range(12))
def test_attributes(number):
    """Each block is held by the attribute that has it, whichever of an object's attributes comes first, of modules and of other objects, with and without a dictionary of their own."""
    draws = random.Random(number)
    metric = draws.choice((Module, Box))()
    names = draws.sample(("preds", "target", "scores", "first", "last"), draws.randint(2, 5))
    for name in names:
        setattr(metric, name, [Block() for _ in range(draws.randint(1, 5))])
    if draws.random() < 0.7:
        vars(metric)  # makes the dictionary, which then stands between
    blocks = [(one, name) for name in names for one in getattr(metric, name)]
    draws.shuffle(blocks)
    starts, expected = [one for one, _ in blocks], [name for _, name in blocks]
    blocks.clear()
    named = found(starts)
    assert [name.split("`")[-2] for _, name in named] == expected, named
    assert all("attribute" in name and type(metric).__name__ in name for _, name in named), named


class Layer(Module):
    """As a module of PyTorch keeps what it has."""

    def __init__(self, depth=0):
        self._parameters, self._buffers, self._modules = {"weight": Block()}, {"mean": Block()}, {"inner": Layer(depth - 1)} if depth else {}

    def parameters(self):
        return [self._parameters["weight"], *(one for inner in self._modules.values() for one in inner.parameters())]


@pytest.mark.parametrize("depth", range(8))
def test_models(depth):
    """A module is no holder of its parameters: that is what holds the module, or a cycle. It is one of its buffers, whose graph may grow."""
    held = [Layer(depth) for _ in range(3)]
    named = found([one for model in held for one in model.parameters()])
    assert {name.split(" ")[0] for _, name in named} == {"`held`"}, named
    assert found([held[0]._buffers["mean"]]) == [("holder", "attribute `mean` of Layer")]
    gc.disable()
    try:
        for model in held:
            model.hook = model.parameters
        starts = [one for model in held for one in model.parameters()]
        del model
        held.clear()
        named = found(starts)
    finally:
        gc.enable()
    assert {kind for kind, _ in named} == {"cycle of references"}, named


def test_closures():
    """What a closure holds has the name of its function."""
    def of(blocks):
        def on_gradient():
            return blocks
        return on_gradient

    blocks = [Block(), Block()]
    hooks = [of(list(blocks))]
    named = found(blocks)
    assert all(name.startswith("`hooks` in test_closures") and "closure on_gradient (holders_test.py:" in name for _, name in named) and hooks, named


def test_cycles():
    """Cycles of references are told from what is held, beside each other."""
    gc.disable()
    try:
        held = Box()
        held.tensor = Block()
        held.own = held
        blocks = [held.tensor]
        for _ in range(5):
            lost = Box()
            lost.tensor, lost.own = Block(), lost
            blocks.append(lost.tensor)
            del lost
        named = found(blocks)
    finally:
        gc.enable()
    assert named[0] == ("holder", named[0][1]) and named[0][1].startswith("`held` in test_cycles"), named
    assert named[1:] == [("cycle of references", "attribute `tensor` of Box")] * 5, named


def test_arguments(monkeypatch):
    """As Python 3.13, gc.get_referrers reports the tuple in which it was given its arguments, which nothing of the program has."""
    referrers = gc.get_referrers

    def with_arguments(*objects):
        numbers = list(map(id, objects))
        tuples = [one for one in gc.get_objects() if type(one) is tuple and one is not objects and list(map(id, one)) == numbers]
        return [one for one in referrers(*objects) if one is not objects] + tuples

    monkeypatch.setattr(gc, "get_referrers", with_arguments)
    test_cycles()


@pytest.mark.parametrize("asked_for", (False, True))
def test_arrays(asked_for):
    """Arrays of objects, and the dictionaries and tuples with nothing but such arrays, which the collector does not look at: also an object's own, once it was asked for."""
    numpy = pytest.importorskip("numpy")

    def rows(count):
        array = numpy.empty(count, dtype=object)
        array[:] = [Block() for _ in range(count)]
        return array

    buffer, table, pair, recent = Box(), {"rows": rows(3)}, [(rows(2), rows(2))], []
    buffer.rows = rows(8)
    recent.extend(buffer.rows[5:])
    gc.collect()
    if asked_for:
        assert not gc.is_tracked(vars(buffer)) and not gc.is_tracked(pair[0])
    blocks = [*buffer.rows, *table["rows"], *pair[0][1]]
    named = found(blocks)
    assert [name.split(" ")[0] for _, name in named] == ["`buffer`"] * 8 + ["`table`"] * 3 + ["`pair`"] * 2, named
    assert all(name.endswith("attribute `rows` of Box") for _, name in named[:8]) and len(recent) == 3, named


def test_hostile(capfd):
    """Proxies, metaclasses, dictionaries and classes with code of their own between a block and what holds it, and everywhere else."""
    around = [Hostile(), OfMeta(), Items(), OwnDictionary(), Meta("Made", (), {})]
    items, slots, made = Items({1: 2}), OwnDictionary(), Meta("Holding", (), {})
    blocks = [Block() for _ in range(4)]
    dict.__setitem__(items, Text("key"), blocks[0])
    slots.kept = blocks[1]
    type.__setattr__(made, "kept", blocks[2])
    proxy = Hostile()
    object.__setattr__(proxy, "kept", blocks[3])
    starts = list(blocks)
    blocks.clear()
    named = found(starts)
    assert [kind for kind, _ in named] == ["holder"] * 4, named
    assert [name.split(" ")[0].split(",")[0] for _, name in named[:2]] == ["`items`", "`slots`"] and named[3][1].startswith("`proxy`"), named
    assert "attribute `kept`" in named[2][1], named
    assert capfd.readouterr().err == "" and len(around) == 5


def test_threads():
    """Threads that begin and end while they are looked at."""
    ends = threading.Event()

    def live():
        own = [object()]
        while not ends.is_set() and own:
            threading.Thread(target=lambda: None).start()

    threads = [threading.Thread(target=live) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            kept = [Block() for _ in range(3)]
            assert {name.split(" ")[0] for _, name in found(list(kept))} == {"`kept`"}
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def test_many():
    """A million objects of the program: the search visits each once a level, and ends."""
    many = [[] for _ in range(1_000_000)]
    kept = {"a": Box()}
    kept["a"].blocks = [Block() for _ in range(8)]
    named = found(list(kept["a"].blocks))
    assert {name.split(" ")[0] for _, name in named} == {"`kept`"} and len(many) == 1_000_000, named
