"""Verdicts in the shape of tidemark's record (tidemark report --schema). `tidemark judge` says what a formula is worth, whether a claim holds, and
the text of those that do not: the code that judges scenarios and words their failures. The language of formulas is described in harness/record/formula.h."""
from __future__ import annotations

import json
import numbers
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.executable import executable
from tidemark.misuse import Misuse

Record = dict[str, Any]  # plain data of a process, as JSON has it
Verdict = Record
PASS, FAIL, SKIP = "pass", "fail", "skip"


def verdict(name: str, status: str | None = None, *, variant: str = "", rank: int = 0, measured: int | None = None, low: int | None = None, high: int | None = None,
            formula: str = "", values: Mapping[str, Any] | None = None, unit: str = "bytes", why: str = "") -> Verdict:
    """A verdict; with the status None a claim, which `judged` makes one."""
    return {"name": name, "variant": variant, "status": status, "expected": {"low": low, "high": high, "formula": formula, "values": dict(values or {})},
            "measured": None if measured is None else int(measured), "rank": rank, "unit": unit, "why": why}


def equality(name: str, measured: int | None, formula: Any, values: Mapping[str, Any], rank: int = 0) -> Verdict:
    """The claim that `measured` bytes are exactly what the formula says; values that it does not name are left out. Raises Misuse where one is no whole number."""
    text = str(formula)
    used = {key: values[key] for key in sorted(set(re.findall(r"[A-Za-z_]\w*", text)) & values.keys())}
    for key, value in used.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise Misuse(f"formula '{text}' needs a whole number for {key}, and not {value!r}")
    if not text.strip():
        raise Misuse("formula '' is not an expression")
    return verdict(name, measured=measured, formula=text, values={key: int(value) for key, value in used.items()}, rank=rank)  # numpy's too


def judged(claims: Sequence[Verdict], tidemark: Any = None) -> tuple[list[Verdict], str]:
    """(the verdicts, the text of those that failed: a paragraph each, with all the ranks on which it is the same). `tidemark`: the executable, in place of
    executable(). Raises Misuse where a formula is none."""
    done = subprocess.run([tidemark or executable(), "judge"], input=json.dumps(list(claims)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Misuse(done.stderr.strip().removeprefix("error: "))
    answer = json.loads(done.stdout)
    return [{**claim, "status": one["status"], "why": one["why"], "expected": {**claim["expected"], "low": one["low"], "high": one["high"]}}
            for claim, one in zip(claims, answer["verdicts"])], answer["text"]
