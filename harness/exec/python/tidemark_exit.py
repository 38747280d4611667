"""The end of a process of PyTorch. Its threads of the backward release Python objects after backward() has returned. From torch 2.14 on, a thread that does so while
Python ends, ends the process with signal 6 ("terminate called without an active exception")."""
import atexit
import os
import threading

PAUSE = 0.001  # seconds, in which other threads may have Python's lock
MOST = 1000  # pauses


def threads_of_backward():
    """By thread: its state, and how often it has slept until now."""
    threads = {}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/status", encoding="utf-8", errors="replace") as file:
                facts = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
        except OSError:  # it has ended
            continue
        if facts.get("Name", "").startswith("pt_autograd"):
            threads[thread] = (facts["State"][0], facts["voluntary_ctxt_switches"])
    return threads


def wait_for_backward():
    """Until each of these threads has slept through a pause: it then waits for another backward."""
    before = None
    for _ in range(MOST):
        now = threads_of_backward()
        if now == before and all(state == "S" for state, _ in now.values()) or not now:
            return
        before = now
        threading.Event().wait(PAUSE)  # time.sleep would pass on the program's virtual clock


def begin():
    """Called before other modules register what they do at the end, and so done after it."""
    atexit.register(wait_for_backward)
