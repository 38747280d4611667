"""Formulas are exact, and what is none is refused with a line."""
from fractions import Fraction

import pytest

from tidemark import verdict
from tidemark.formula import Formula, Misuse


@pytest.mark.parametrize("text, values, expected", [
    ("2*B*S*H*bytes + P/W", {"B": 2, "S": 3, "H": 5, "bytes": 4, "P": 12, "W": 4}, 243),
    ("2*B^2", {"B": 3}, 18), ("-a^2", {"a": 3}, -9), ("2^3^2", {}, 512),
    ("block(1) + block(512) + block(0) + block(513)", {}, 512 + 512 + 0 + 1024),
    ("roundup(5, 4) + ceil(7/2) + floor(7/2) + min(3, 1) + max(1, 2, 9)", {}, 8 + 4 + 3 + 1 + 9),
    ("(L - 1)*U if kept else U", {"L": 4, "U": 10, "kept": 0}, 10), ("(a > 2)*5", {"a": 3}, 5),
    ("10 + (a > 3 ? 7 : 5)*2", {"a": 4}, 24), ("a == 1 ? 1 : a == 2 ? 2**3 : a^2", {"a": 2}, 8), ("a == 1 ? 1 : a == 2 ? 2**3 : a^2", {"a": 3}, 9),
    ("a ? b ? 1 : 2 : 3", {"a": 1, "b": 0}, 2), ("max((a ? b : 0) + 1, a > 1 ? 2 : (b ? 9 : 4), 3)", {"a": 1, "b": 5}, 9),
    ("1/3*n", {"n": 9}, 3), ("2^60 + 1", {}, 2**60 + 1), ("1.5*n", {"n": 2}, 3),
])
def test_values(text, values, expected):
    assert Formula(text, {**values, "not_used": 1}).evaluate() == expected
    assert "not_used" not in Formula(text, {**values, "not_used": 1}).values


@pytest.mark.parametrize("text, values, why", [
    ("a + b", {"a": 1}, "has no value for b"), ("a +", {"a": 1}, "is not an expression"), ("a/2", {"a": 3}, "not a whole number"), ("1/0", {}, "divides by 0"),
    ("a", {"a": 1.5}, "needs a whole number for a"), ("a", {"a": True}, "needs a whole number"), ("__import__('os')", {}, "has no value for __import__"),
    ("a.real", {"a": 1}, "not a part of a formula"), ("block(1, 2)", {}, "gives block 2 arguments"), ("2^1000", {}, "exponent"), ("((2^64)^64)^64", {}, "more than 1024 bits"), ("'a'", {}, "not a part"),
    ("roundup(5, 0)", {}, "granule"), ("[a for a in b]", {"a": 1, "b": 2}, "not a part"), ("(" * 400 + "1" + ")" * 400, {}, "is not an expression"), ("1e999", {}, "not a part"),
    ("", {}, "is not an expression"), ("1 ? 2", {}, "is not an expression"), ("1 : 2 ? 3", {}, "is not an expression"), ("1 ? 2 : 3 : 4", {}, "is not an expression"), ("max()", {}, "not a part"),
])
def test_refused(text, values, why):
    with pytest.raises(Misuse, match="formula '") as error:
        Formula(text, values).evaluate()
    assert why in str(error.value)


def test_terms_sum_to_the_value():
    formula = Formula("2*a + (b - 3) - c^2 + d/2", {"a": 1, "b": 10, "c": 2, "d": 8})
    assert sum(value for _, value in formula.terms()) == formula.evaluate() == Fraction(9)


def test_text_of_a_failure():
    one = verdict.equality("memory/active/forward", 6291456, Formula("S + 2*U", {"S": 3145728, "U": 1048576}), rank=1)
    assert verdict.text(one).splitlines() == ["FAIL memory/active/forward: rank 1",
                                              "     expected 5,242,880 bytes = S + 2*U with S = 3,145,728, U = 1,048,576",
                                              "     terms    S = 3,145,728, 2 * U = 2,097,152",
                                              "     measured 6,291,456 bytes (+1,048,576)"]
    assert verdict.equality("x", 5242880, Formula("S + 2*U", {"S": 3145728, "U": 1048576}))["status"] == verdict.PASS
    assert verdict.equality("x", 5242881, Formula("S + 2*U", {"S": 3145728, "U": 1048576}))["status"] == verdict.FAIL
