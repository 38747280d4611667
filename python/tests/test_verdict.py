"""Claims become verdicts by `tidemark judge`; what is no formula is refused with a line."""
import pytest

from tidemark import verdict
from tidemark.verdict import Misuse


def value(text, values):
    (one,), _ = verdict.judged([verdict.equality("x", None, text, values)])
    return one["expected"]["low"]


@pytest.mark.parametrize("text, values, expected", [
    ("2*B*S*H*bytes + P/W", {"B": 2, "S": 3, "H": 5, "bytes": 4, "P": 12, "W": 4}, 243),
    ("(L - 1)*U if kept else U", {"L": 4, "U": 10, "kept": 0}, 10), ("a ? b ? 1 : 2 : 3", {"a": 1, "b": 0}, 2), ("n/49*7", {"n": 7 * 3}, 3),
])
def test_values(text, values, expected):
    claim = verdict.equality("x", expected, text, {**values, "not_used": 1})
    (one,), failure_text = verdict.judged([claim])
    assert value(text, values) == expected and one["status"] == verdict.PASS and not failure_text
    assert claim["expected"]["values"] == values


@pytest.mark.parametrize("text, values, why", [
    ("a + b", {"a": 1}, "has no value for b"), ("a +", {"a": 1}, "is not an expression"), ("a/2", {"a": 3}, "not a whole number"), ("1/0", {}, "divides by 0"),
    ("a", {"a": 1.5}, "needs a whole number for a"), ("a", {"a": True}, "needs a whole number"), ("__import__('os')", {}, "is not an expression"), ("", {}, "is not an expression"),
])
def test_refused(text, values, why):
    with pytest.raises(Misuse, match="formula '") as error:
        value(text, values)
    assert why in str(error.value) and "\n" not in str(error.value)


def test_a_claim_without_a_bound_is_refused():
    with pytest.raises(Misuse, match="the claim memory/now has neither a formula nor a bound"):
        verdict.judged([verdict.verdict("memory/now", measured=5)])


def test_numbers_beyond_64_bits():
    assert value("2^64*4", {}) == 2**66


# holds: python/README.md, What a test says
def test_text_of_failures():
    def claim(measured, rank):
        return verdict.equality("memory/active/forward", measured, "S + 2*U", {"S": 3145728, "U": 1048576}, rank)

    all_verdicts, text = verdict.judged([claim(6291456, 1), claim(5242880, 0), claim(6291456, 2), verdict.verdict("races/none", measured=2, low=0, high=0, unit="races", why="a\nb")])
    assert [one["status"] for one in all_verdicts] == [verdict.FAIL, verdict.PASS, verdict.FAIL, verdict.FAIL]
    assert text.splitlines() == ["FAIL memory/active/forward: ranks 1-2",
                                 "     expected 5,242,880 bytes = S + 2*U with S = 3,145,728, U = 1,048,576",
                                 "     terms    S = 3,145,728, 2*U = 2,097,152",
                                 "     measured 6,291,456 bytes (+1,048,576)",
                                 "FAIL races/none: rank 0", "     expected 0 races", "     measured 2 races (+2)", "     a", "     b"]


def test_a_skipped_verdict_stays_one():
    (one,), text = verdict.judged([verdict.verdict("parity/bits", verdict.SKIP, why="no numbers")])
    assert (one["status"], one["why"], text) == (verdict.SKIP, "no numbers", "")
