"""Formulas as text with named values, evaluated exactly: `2*B*S*H + block(P/W)`. Operators are + - * / ^ (or **), comparisons and
`a if c else b` (or `c ? a : b`); functions are min, max, ceil, floor, block(n) (n bytes rounded up to the caching allocator's 512) and roundup(n, granule)."""
from __future__ import annotations

import ast
import math
import numbers
import operator
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NoReturn

FUNCTIONS = {"min": min, "max": max, "ceil": lambda n: Fraction(math.ceil(n)), "floor": lambda n: Fraction(math.floor(n)),
             "roundup": lambda n, granule: granule * math.ceil(n / granule), "block": lambda n: Fraction(512 * math.ceil(n / 512))}
ARGUMENTS = {"ceil": 1, "floor": 1, "block": 1, "roundup": 2}
BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
COMPARISONS = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne}
LARGEST_EXPONENT = 64
MOST_BITS = 1024  # of a number on the way; bytes have 64


class Misuse(Exception):
    """A mistake in how a test is written; its outcome is an error and never a failure."""


def with_if(text: str) -> str:
    """The text with `a if c else b` in place of each `c ? a : b`."""
    depth, places = 0, {letter: [] for letter in "(),?:"}  # outside all parentheses, and of these parentheses
    for place, letter in enumerate(text):
        depth -= letter == ")"
        if depth == 0 and letter in places:
            places[letter].append(place)
        depth += letter == "("
    if places[","]:
        return ",".join(with_if(text[begin + 1:end]) for begin, end in zip([-1, *places[","]], [*places[","], len(text)]))
    open_conditions = 0
    for colon in sorted(places["?"] + places[":"]):
        open_conditions += 1 if text[colon] == "?" else -1
        if open_conditions == 0:
            first = places["?"][0]
            return f"({with_if(text[first + 1:colon])}) if ({with_if(text[:first])}) else ({with_if(text[colon + 1:])})"
    for begin, end in reversed(list(zip(places["("], places[")"]))):
        text = text[:begin + 1] + with_if(text[begin + 1:end]) + text[end:]
    return text


class Formula:
    """`text` with `values` by name. Raises Misuse where the text is none, or names a value that is missing; values that it does
    not name are left out."""

    def __init__(self, text: Any, values: Mapping[str, Any]) -> None:
        self.text, self.values = str(text), {}
        try:
            self.tree = ast.parse(with_if(self.text.strip().replace("^", "**")), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.wrong("is not an expression")
        names = {node.func.id for node in ast.walk(self.tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        names = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)} - (names & FUNCTIONS.keys())
        for name in sorted(names):
            value = values.get(name)
            if name not in values:
                self.wrong(f"has no value for {name}")
            if isinstance(value, bool) or not isinstance(value, (numbers.Integral, Fraction)):
                self.wrong(f"needs a whole number for {name}, and not {value!r}")
            self.values[name] = value if isinstance(value, Fraction) else int(value)  # numpy's too

    def wrong(self, what: str) -> NoReturn:
        raise Misuse(f"formula '{self.text}' {what}")

    def evaluate(self) -> int:
        """The value, a whole number."""
        value = self.of(self.tree)
        if value.denominator != 1:
            self.wrong(f"is {float(value)}, which is not a whole number: use floor, ceil or block")
        return int(value)

    def terms(self) -> list[tuple[str, Fraction]]:
        """The summands of the outermost sum, each as (text, value)."""
        found = []

        def split(node: ast.expr, sign: int) -> None:
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
                split(node.left, sign)
                split(node.right, -sign if isinstance(node.op, ast.Sub) else sign)
            else:
                found.append((("-" if sign < 0 else "") + ast.unparse(node).replace("**", "^"), sign * self.of(node)))

        split(self.tree, 1)
        return found

    def of(self, node: ast.expr) -> Fraction:
        value = self.exactly(node)
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
            self.wrong(f"has a number of more than {MOST_BITS} bits")
        return value

    def exactly(self, node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and math.isfinite(node.value):
            return Fraction(str(node.value))
        if isinstance(node, ast.Name) and node.id in self.values:
            return Fraction(self.values[node.id])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            return self.of(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
        if isinstance(node, ast.IfExp):
            return self.of(node.body if self.of(node.test) else node.orelse)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            return Fraction(COMPARISONS[type(node.ops[0])](self.of(node.left), self.of(node.comparators[0])))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and node.args and not node.keywords:
            if len(node.args) != ARGUMENTS.get(node.func.id, len(node.args)):
                self.wrong(f"gives {node.func.id} {len(node.args)} arguments")
            arguments = [self.of(one) for one in node.args]
            if node.func.id == "roundup" and arguments[1] <= 0:
                self.wrong("rounds up to a granule that is not positive")
            return Fraction(FUNCTIONS[node.func.id](*arguments))
        if isinstance(node, ast.BinOp):
            left, right = self.of(node.left), self.of(node.right)
            if isinstance(node.op, ast.Pow):
                if right.denominator != 1 or abs(right) > LARGEST_EXPONENT or (right < 0 and left == 0):
                    self.wrong(f"has the exponent {right}")
                return left ** int(right)
            if isinstance(node.op, ast.Div) and right == 0:
                self.wrong("divides by 0")
            if type(node.op) in BINARY:
                return BINARY[type(node.op)](left, right)
        return self.wrong(f"has '{ast.unparse(node)}', which is not a part of a formula")
