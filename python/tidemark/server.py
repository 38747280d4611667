"""A process under `tidemark exec` that has imported torch once, and forks the ranks of one test after the other. Its client is pool.py: it sends
an order a line, and gets the process ids of the ranks, and then how they ended."""
from __future__ import annotations

import atexit
import ctypes
import glob
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
import warnings
from typing import Any

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
LONGEST = 15  # seconds between asking the other ranks to end and killing them
RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.py")


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def become(order: dict[str, Any], rank: int, port: str, server: int) -> None:
    """This process, a copy of the server, is the rank of a test from here on."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != server:
        os._exit(1)
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
    output = os.open(os.path.join(order["folder"], "output"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(order["cwd"])
    count = len(order["ranks"])
    if order["launched"]:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(count), GROUP_RANK="0",
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    sys.argv = [RANK, os.path.join(order["folder"], "order.json")]


def run_child() -> int:
    """The exit code of a rank's pytest."""
    try:
        runpy.run_path(RANK, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def fork_rank(order: dict[str, Any], rank: int, port: str, connection: socket.socket) -> int:
    server = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of a fork beside a thread, which waits in this process alone
        pid = os.fork()
    if pid == 0:
        connection.close()
        become(order, rank, port, server)
        code = run_child()
        threading._shutdown()  # type: ignore[attr-defined]  # the end of Python, without that of the server
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return pid


def how(rank: int, status: int) -> str:
    """The end of a rank in the words of `tidemark exec`; "" for exit code 0."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"rank {rank} was ended by signal {number} ({signal.strsignal(number)})"
    code = os.WEXITSTATUS(status)
    return f"rank {rank} ended with exit code {code}" if code else ""


def run(order: dict[str, Any], connection: socket.socket) -> dict[str, Any]:
    """Runs the ranks of a test; the first that fails ends the others."""
    port = free_port()
    left = {fork_rank(order, rank, port, connection): rank for rank in order["ranks"]}
    pids = list(left)
    send(connection, {"pids": pids})
    first, code, asked = "", 0, 0.0
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            if asked and time.monotonic() > asked + LONGEST:
                end(left, signal.SIGKILL)
            time.sleep(0.005)
            continue
        if pid not in left:
            continue
        said = how(left.pop(pid), status)
        end([pid], signal.SIGKILL)  # what it has left running in its process group
        if said and not first:
            first, code, asked = said, os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status), time.monotonic()
            end(left, signal.SIGTERM)
    for pid in pids:
        for record in glob.glob(os.path.join(glob.escape(os.environ["TIDEMARK_EXEC"]), f"{pid}*")):
            os.unlink(record)
    return {"code": code, "said": first}


def end(pids: Any, number: int) -> None:
    for pid in pids:
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            try:
                os.kill(pid, number)  # that is about to have a process group
            except ProcessLookupError:
                pass


def send(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def main(place: str) -> None:
    import pytest  # noqa: F401
    import torch  # noqa: F401

    import tidemark.child
    import tidemark.plugin  # noqa: F401

    connection = socket.socket(socket.AF_UNIX)
    connection.connect(place)
    send(connection, {"ready": os.getpid()})
    orders = connection.makefile("r", encoding="utf-8")
    while select.select([connection], [], []) and (line := orders.readline()):
        send(connection, run(json.loads(line), connection))


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as _file:
        sys.path[:] = json.load(_file)
    main(sys.argv[1])
