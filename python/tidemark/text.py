"""The one way in which tidemark's Python shows a text of others (names of files, a program's words) in a terminal. CMake puts a copy beside
the modules of `tidemark exec`, as tidemark_text.py."""
from __future__ import annotations

import unicodedata


def one_line(text: str) -> str:
    """Control characters (line breaks, escapes, C1) become spaces, as do line and paragraph separators; bytes that are no text become "?"."""
    kinds = {"Cc": " ", "Zl": " ", "Zp": " ", "Cs": "?"}
    return "".join(kinds.get(unicodedata.category(one), one) for one in text)
