"""The error of how a test is written."""
from __future__ import annotations


class Misuse(Exception):
    """A mistake in how a test is written; its outcome is an error and never a failure."""
