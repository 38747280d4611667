"""Verdicts: a claim about one variant on one rank, its formula with values, and what was measured. Plain data and the text of a failure."""
from fractions import Fraction

PASS, FAIL, SKIP = "pass", "fail", "skip"


def figure(number):
    number = Fraction(number)
    return f"{int(number):,}" if number.denominator == 1 else f"{float(number):,}"


def in_unit(number, unit):
    return figure(number) + (f" {unit}" if unit else "")


def verdict(name, holds, *, measured=None, expected=None, formula=None, unit="bytes", why="", rank=0):
    """`formula`: of class Formula; `holds` None: skipped, with the reason in `why`."""
    return {"name": name, "variant": "", "rank": rank, "status": SKIP if holds is None else PASS if holds else FAIL,
            "expected": expected if expected is None else int(expected), "formula": formula.text if formula else "",
            "values": {key: int(value) if Fraction(value).denominator == 1 else float(value) for key, value in formula.values.items()} if formula else {},
            "terms": [[text, figure(value)] for text, value in formula.terms()] if formula and holds is False else [],
            "measured": measured if measured is None else int(measured), "unit": unit, "why": why}


def equality(name, measured, formula, rank=0, unit="bytes"):
    """Verdict whether `measured` is what the formula says, to the byte."""
    expected = formula.evaluate()
    return verdict(name, int(measured) == expected, measured=measured, expected=expected, formula=formula, rank=rank, unit=unit)


def ranks_text(ranks):
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def text(one, ranks=None):
    """A verdict that failed, worded as in the reports of runs."""
    variant = f" {one['variant']}" if one["variant"] else ""
    lines = [f"FAIL {one['name']}{variant}: {ranks_text(ranks if ranks is not None else [one['rank']])}"]
    if one["expected"] is not None:
        values = ", ".join(f"{key} = {figure(value)}" for key, value in sorted(one["values"].items()))
        formula = (" = " + one["formula"] if one["formula"] else "") + (" with " + values if values else "")
        lines.append(f"     expected {in_unit(one['expected'], one['unit'])}{formula}")
        if len(one["terms"]) > 1:
            lines.append("     terms    " + ", ".join(f"{term} = {value}" for term, value in one["terms"]))
    if one["measured"] is not None:
        difference = one["measured"] - one["expected"] if one["expected"] is not None else 0
        lines.append(f"     measured {in_unit(one['measured'], one['unit'])}" + (f" ({difference:+,})" if difference else ""))
    if one["why"]:
        lines.append("     " + one["why"])
    return "\n".join(lines)
