"""Verdicts: a claim about one variant on one rank, its formula with values, and what was measured. Plain data and the text of a failure."""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tidemark.formula import Formula

Record = dict[str, Any]  # plain data of a process, as JSON has it
Verdict = Record
PASS, FAIL, SKIP = "pass", "fail", "skip"


def figure(number: Any) -> str:
    number = Fraction(number)
    return f"{int(number):,}" if number.denominator == 1 else f"{float(number):,}"


def in_unit(number: Any, unit: str) -> str:
    return figure(number) + (f" {unit}" if unit else "")


def verdict(name: str, holds: bool | None, *, measured: Any = None, expected: Any = None, formula: Formula | None = None, unit: str = "bytes", why: str = "", rank: int = 0) -> Verdict:
    """`formula`: of class Formula; `holds` None: skipped, with the reason in `why`."""
    return {"name": name, "variant": "", "rank": rank, "status": SKIP if holds is None else PASS if holds else FAIL,
            "expected": expected if expected is None else int(expected), "formula": formula.text if formula else "",
            "values": {key: int(value) if Fraction(value).denominator == 1 else float(value) for key, value in formula.values.items()} if formula else {},
            "terms": [[text, figure(value)] for text, value in formula.terms()] if formula and holds is False else [],
            "measured": measured if measured is None else int(measured), "unit": unit, "why": why}


def equality(name: str, measured: int, formula: Formula, rank: int = 0, unit: str = "bytes") -> Verdict:
    """Verdict whether `measured` is what the formula says, to the byte."""
    expected = formula.evaluate()
    return verdict(name, int(measured) == expected, measured=measured, expected=expected, formula=formula, rank=rank, unit=unit)


def at_most(name: str, measured: int, most: int, *, rank: int = 0, why: str = "") -> Verdict:
    """Verdict whether `measured` bytes are not more than `most`."""
    return {**verdict(name, measured <= most, measured=measured, expected=most, rank=rank, why=why if measured > most else ""), "low": None}


def ranks_text(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def text(one: Verdict, ranks: Sequence[int] | None = None) -> str:
    """A verdict that failed, worded as in the reports of runs."""
    variant = f" {one['variant']}" if one["variant"] else ""
    lines = [f"FAIL {one['name']}{variant}: {ranks_text(ranks if ranks is not None else [one['rank']])}"]
    if one["expected"] is not None:
        values = ", ".join(f"{key} = {figure(value)}" for key, value in sorted(one["values"].items()))
        formula = (" = " + one["formula"] if one["formula"] else "") + (" with " + values if values else "")
        most = "at most " if "low" in one else ""
        lines.append(f"     expected {most}{in_unit(one['expected'], one['unit'])}{formula}")
        if len(one["terms"]) > 1:
            lines.append("     terms    " + ", ".join(f"{term} = {value}" for term, value in one["terms"]))
    if one["measured"] is not None:
        difference = one["measured"] - one["expected"] if one["expected"] is not None else 0
        lines.append(f"     measured {in_unit(one['measured'], one['unit'])}" + (f" ({difference:+,})" if difference else ""))
    if one["why"]:
        lines.append("     " + one["why"])
    return "\n".join(lines)
