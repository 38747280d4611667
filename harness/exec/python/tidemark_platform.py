"""The platform's answers about this process."""
import json
import os
import sys


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


def stop(text):
    print("error: exec: " + text, file=sys.stderr, flush=True)
    os._exit(2)
