"""The results of a pair's function as bytes, in a file of each rank, and the comparison of two such files."""
from __future__ import annotations

import ctypes
import json
import math
import os
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tidemark import files
from tidemark import verdict as verdicts
from tidemark.verdict import Misuse, Verdict

NUMBERS = {"torch.float64": "d", "torch.float32": "f", "torch.float16": "e", "torch.int64": "q", "torch.int32": "i", "torch.int16": "h",
           "torch.int8": "b", "torch.uint8": "B", "torch.bool": "?"}


def tensors_of(torch: ModuleType, value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(name, tensor) of all tensors: of a module its parameters, their gradients and its buffers, of an optimizer its state."""
    if isinstance(value, torch.nn.Module):
        for key, parameter in value.named_parameters():
            yield f"{name}.{key}", parameter
            if parameter.grad is not None:
                yield f"{name}.{key}.grad", parameter.grad
        yield from ((f"{name}.{key}", buffer) for key, buffer in value.named_buffers())
    elif isinstance(value, torch.optim.Optimizer):
        for i, state in enumerate(value.state.values()):
            yield from tensors_of(torch, {key: one for key, one in state.items() if isinstance(one, torch.Tensor)}, f"{name}.state[{i}]")
    elif isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (bool, int, float, complex)):
        if isinstance(value, int) and not -2**63 <= value < 2**63:
            raise Misuse(f"tidemark.pair: {name} is an integer of more than 64 bits")
        yield name, torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.complex128 if isinstance(value, complex) else torch.int64)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from tensors_of(torch, one, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from tensors_of(torch, one, f"{name}[{i}]")
    elif value is not None:
        raise Misuse(f"tidemark.pair: {name} is a {type(value).__name__}; a pair's function returns tensors, numbers, modules, optimizers, or lists or "
                     "dicts of them")


def write(torch: ModuleType, value: Any, place: str) -> None:
    """`place`.json names the tensors, `place`.bin has their bytes."""
    index, names = [], set()
    with files.create(place + ".bin", binary=True) as file:
        for name, tensor in tensors_of(torch, value, "result"):
            tensor = getattr(tensor, "_local_tensor", tensor).detach()
            if name in names:
                raise Misuse(f"tidemark.pair: two results are named {name}: give the keys of a dict other names")
            if tensor.layout is not torch.strided or tensor.is_meta:
                raise Misuse(f"tidemark.pair: {name} must be a dense tensor; it {'is on the meta device' if tensor.is_meta else f'has the layout {tensor.layout}'}")
            names.add(name)
            shape, dtype = list(tensor.shape), str(tensor.dtype)
            tensor = tensor.to("cpu").contiguous()
            if tensor.nbytes and not tensor.data_ptr():
                raise Misuse(f"tidemark.pair: {name} has no memory (a parameter that is sharded or freed)")
            index.append({"name": name, "shape": shape, "dtype": dtype, "at": file.tell(), "bytes": tensor.nbytes})
            file.write(ctypes.string_at(tensor.data_ptr(), tensor.nbytes) if tensor.nbytes else b"")
    if not index:
        raise Misuse("tidemark.pair: the function returns nothing that could be compared: return the loss, the module, the optimizer")
    with files.create(place + ".json") as file:
        json.dump(index, file)


def read(place: str) -> Any:
    if not os.path.exists(place + ".json"):
        return None
    with open(place + ".json", encoding="utf-8") as file:
        return json.load(file)


def number(data: bytes, dtype: str) -> Any:
    if dtype == "torch.bfloat16":
        return struct.unpack("f", b"\0\0" + data)[0]
    return struct.unpack(NUMBERS[dtype], data)[0] if dtype in NUMBERS else "0x" + data[::-1].hex()


def compare(base: str, other: str, rank: int, may_differ: bool) -> Verdict:
    """parity/bits of one rank. Where names or shapes differ: Misuse, or where they may (a control) a failure."""
    before, after = read(base), read(other)
    if before is None or after is None:
        return verdicts.verdict("parity/bits", verdicts.SKIP, why="the function of the pair has not returned", rank=rank)
    kinds = [{one["name"]: (one["dtype"], one["shape"]) for one in index} for index in (before, after)]
    if kinds[0] != kinds[1]:
        name = next(key for key in [*kinds[0], *kinds[1]] if kinds[0].get(key) != kinds[1].get(key))
        texts = ["nothing" if key is None else f"{key[0]} {tuple(key[1])}" for key in (kinds[0].get(name), kinds[1].get(name))]
        line = f"{name} is {texts[0]} in the baseline and {texts[1]} here"
        if not may_differ:
            raise Misuse(f"tidemark.pair: the sides have different shapes: {line}")
        return verdicts.verdict("parity/bits", verdicts.FAIL, why=line, unit="", rank=rank)
    differing = []
    with open(base + ".bin", "rb") as one, open(other + ".bin", "rb") as two:
        for entry in before:
            place = next(at for at in after if at["name"] == entry["name"])
            one.seek(entry["at"])
            two.seek(place["at"])
            mine, its = one.read(entry["bytes"]), two.read(entry["bytes"])
            if mine != its:
                differing.append((entry, mine, its))
    if not differing:
        return verdicts.verdict("parity/bits", verdicts.PASS, measured=0, low=0, high=0, unit="tensors", rank=rank)
    entry, mine, its = differing[0]
    size = entry["bytes"] // max(1, math.prod(entry["shape"]))
    place = next(i for i in range(0, len(mine), size) if mine[i:i + size] != its[i:i + size])
    old, new = (number(data[place:place + size], entry["dtype"]) for data in (mine, its))
    why = f"{entry['name']} differs first in element {place // size}: {old!r} in the baseline, {new!r} here; {len(differing)} of {len(before)} tensors differ"
    return verdicts.verdict("parity/bits", verdicts.FAIL, measured=len(differing), low=0, high=0, unit="tensors", why=why, rank=rank)
