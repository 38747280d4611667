"""The platform's answers about this process."""
import contextlib
import json
import os
import sys

from tidemark_settings import settings


def read(function):
    """The JSON text that a function `size_t f(char*, size_t)` of the platform writes. The text may grow between two calls: other threads count meanwhile."""
    import ctypes

    tell = getattr(ctypes.CDLL(None), function)
    tell.restype = ctypes.c_size_t
    length, fits = 0, -1
    while length > fits:
        fits = length
        text = ctypes.create_string_buffer(fits + 1)
        length = tell(text, ctypes.c_size_t(len(text)))
    return json.loads(text.value.decode() or "[]")


def refusal(text):
    """An error for what the platform cannot answer, to be raised: `is_refusal` knows its text."""
    import ctypes

    ctypes.CDLL(None).tidemark_device_note_refusal(text.encode())
    return RuntimeError(text)


def is_refusal(error):
    """Whether an exception says what the platform has refused in this process, and not what the program has done wrong."""
    import ctypes

    return bool(ctypes.CDLL(None).tidemark_device_is_refusal(str(error).encode(errors="replace")))


def when_imported(name, change):
    """`change(module)` for this module, which torch may have imported already and the program may never import."""
    if name in sys.modules:
        return change(sys.modules[name])

    def execute(module, run):
        run(module)
        change(module)

    sys.modules["tidemark_exec"].imports.watch(name, execute)


def stop(text):
    print("error: exec: " + text, file=sys.stderr, flush=True)
    with contextlib.suppress(KeyError, OSError), open(settings()["cause"], "x", encoding="utf-8") as cause:  # ../cause.h
        json.dump({"code": 2, "process": "", "text": "exec: " + text}, cause)
    os._exit(2)
