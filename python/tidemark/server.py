"""A process under `tidemark exec` that has imported torch once, and forks the ranks of one test after the other, as tidemark_server.py of `tidemark exec`
forks programs. Its client is pool.py: it sends an order a line, and gets the process ids of the ranks, and then how they ended."""
from __future__ import annotations

import atexit
import functools
import glob
import json
import os
import runpy
import select
import socket
import sys
import threading
from typing import Any

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.py")


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def be_rank(order: dict[str, Any], rank: int, port: str) -> None:
    """This process, a copy of the server, is the rank of a test from here on."""
    import tidemark_files

    with tidemark_files.append(os.path.join(order["folder"], "output")) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(order["cwd"])
    count = len(order["ranks"])
    if order["launched"]:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(count), GROUP_RANK="0",
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    sys.argv = [RANK, os.path.join(order["folder"], "order.json")]
    runpy.run_path(RANK, run_name="__main__")


def run(order: dict[str, Any], connection: socket.socket) -> dict[str, Any]:
    """Runs the ranks of a test; the first that fails ends the others."""
    import tidemark_server  # that of this tidemark exec

    port = free_port()
    programs = {f"rank {rank}": functools.partial(be_rank, order, rank, port) for rank in order["ranks"]}
    status, process, text, pids = tidemark_server.run(programs, connection, lambda started: send(connection, {"pids": started}))
    for pid in pids:
        for record in glob.glob(os.path.join(glob.escape(os.environ["TIDEMARK_EXEC"]), f"{pid}*")):
            os.unlink(record)
    return {"code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status), "process": process, "text": text}


def send(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def main(place: str) -> None:
    sys.path.append(os.path.dirname(os.path.abspath(sys.modules["tidemark_exec"].__file__ or "")))
    import tidemark_files  # noqa: F401
    import tidemark_imported
    import tidemark_server  # noqa: F401

    sys.path.pop()
    tidemark_imported.begin()
    import pytest  # noqa: F401
    import torch  # noqa: F401

    import tidemark.child
    import tidemark.plugin  # noqa: F401

    tidemark_imported.set_apart()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(place)
    send(connection, {"ready": os.getpid()})
    orders = connection.makefile("r", encoding="utf-8")
    while select.select([connection], [], []) and (line := orders.readline()):
        send(connection, run(json.loads(line), connection))


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as _file:
        sys.path[:] = json.load(_file)
    _program = None
    try:
        main(sys.argv[1])
    except BaseException as _copy:
        _server = sys.modules.get("tidemark_server")
        if _server is None or not isinstance(_copy, _server.Copy):
            raise
        _program = _copy.program
    if _program is not None:  # outside of the handler: every exception of a test would have Copy as its context
        _code = sys.modules["tidemark_server"].code_of(_program)
        threading._shutdown()  # type: ignore[attr-defined]  # the end of Python, without that of the server
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_code)
