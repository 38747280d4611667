"""Tests that fail; test_outcomes.py runs them with tidemark and without it, and pytest prints the same."""
import sys

import pytest

if "tidemark.plugin" in sys.modules:
    import tidemark

    platform = tidemark.ranks(1)
else:

    def platform(test):
        return test


def half(number):
    return number // (number - number)


@pytest.fixture
def broken():
    raise OSError("no such fixture file")


@platform
def test_asserts():
    rows, columns = [1, 2, 3], {"a": 1}
    assert rows == [1, 2, 4], columns


@platform
def test_raises_in_a_function():
    half(2)


@platform
def test_raises_while_it_handles():
    try:
        half(3)
    except ZeroDivisionError:
        raise KeyError("no half") from None


@platform
def test_raises_from_another():
    try:
        half(4)
    except ZeroDivisionError as error:
        raise ValueError("no half of 4") from error


@platform
def test_raises_beside_another():
    try:
        half(5)
    except ZeroDivisionError:
        {}["half"]


@platform
def test_expects_another():
    with pytest.raises(TypeError):
        half(6)


@platform
def test_expects_an_error():
    with pytest.raises(TypeError):
        pass


@platform
def test_has_a_broken_fixture(broken):
    pass


@platform
def test_fails_by_itself():
    pytest.fail("as asked")


@platform
@pytest.mark.parametrize("number", [7, 8])
def test_with_parameters(number):
    print("half of", number)
    assert number % 2 == 0
