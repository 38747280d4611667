"""The platform's texts are read whole, also those that grow while they are read (python/tidemark_platform.py)."""
import ctypes
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "python"))
import tidemark_platform  # noqa: E402


class Library:
    """Its text has another entry at each call, as give_text writes it (../virtual/device/names.h)."""
    calls = 0

    def __init__(self, _):
        def tell(text, size):
            Library.calls += 1
            whole = json.dumps(list(range(10 * min(Library.calls, 4)))).encode()
            if text is not None:
                text.value = whole[:size.value - 1]
            return len(whole)

        self.text = tell


def test_platform(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert tidemark_platform.read("text") == list(range(40)), f"after {Library.calls} calls"
