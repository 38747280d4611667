"""The end of a process waits for the threads of the backward, and for no other (python/tidemark_exit.py)."""
import ctypes
import hashlib
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "python"))
import tidemark_exit  # noqa: E402

PR_SET_NAME = 15  # <linux/prctl.h>


def works(name, ends):
    """A thread that works without Python's lock for a while, and then sleeps until `ends`; when it slept."""
    slept, begun = [], threading.Event()

    def run():
        ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)
        begun.set()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)
        slept.append(time.monotonic())
        ends.wait()

    threading.Thread(target=run, daemon=True).start()
    begun.wait()
    return slept


def test_exit():
    ends = threading.Event()
    other = works(b"other", ends)
    tidemark_exit.wait_for_backward()
    assert not other, "another thread is not waited for"
    backward = works(b"pt_autograd_0", ends)
    tidemark_exit.wait_for_backward()
    assert backward, "the thread of a backward has done its work"
    begun = time.monotonic()
    tidemark_exit.wait_for_backward()
    assert time.monotonic() - begun < 0.5, "a thread that sleeps is not waited for"
    ends.set()
