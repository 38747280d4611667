"""Servers that have imported torch (server.py), one for each kind of virtual device and environment. A test costs a fork of one, and not a Python
with torch of its own."""
from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tidemark import files

HERE = os.path.dirname(os.path.abspath(__file__))
MOST = 3  # servers at a time; each holds a few hundred MB
START = 600  # seconds for Python and torch
PATIENCE = 15  # seconds between asking the ranks to end and killing them
# Variables that differ between two tests and that no import of torch reads.
OF_A_TEST = {"PYTEST_CURRENT_TEST", "PYTEST_VERSION"}


def cause_environment(cause: str) -> dict[str, str]:
    """The variable that asks `tidemark exec` for what is alive, and names the file for the cause of a run without a result (harness/exec/settings.h). Where
    this process was told of a server that has imported torch, `tidemark exec` may take a copy of that."""
    given = json.loads(os.environ.get("TIDEMARK_EXEC_SETTINGS") or "{}")
    return {"TIDEMARK_EXEC_SETTINGS": json.dumps({**{name: given[name] for name in ("server",) if name in given}, "history": 1, "cause": cause})}


def read_cause(file: str) -> dict[str, Any] | None:
    try:
        with open(file, encoding="utf-8") as read:
            cause: dict[str, Any] = json.load(read)
            return cause
    except (OSError, ValueError):
        return None


class NotStarted(Exception):
    """The server has ended before it could take an order: its output, its exit code, and the cause that `tidemark exec` has left."""

    def __init__(self, output: str, code: int, cause: dict[str, Any] | None) -> None:
        super().__init__(output)
        self.output, self.code, self.cause = output, code, cause


class Server:
    def __init__(self, command: list[str], path: list[str], environment: dict[str, str], cwd: str, tie: Callable[[], None]) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="tidemark-")
        place, paths, output_path, cause = (os.path.join(self.folder.name, name) for name in ("socket", "path.json", "output", "cause"))
        with files.create(paths) as file:
            json.dump(path, file)
        with socket.socket(socket.AF_UNIX) as listener, files.create(output_path) as output:
            listener.bind(place)
            listener.listen(1)
            listener.settimeout(0.05)
            self.process = subprocess.Popen([*command, os.path.join(HERE, "server.py"), place, paths], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            env={**environment, **cause_environment(cause)}, cwd=cwd, start_new_session=True, preexec_fn=tie)
            until = time.monotonic() + START
            while True:
                try:
                    self.connection, _ = listener.accept()
                    break
                except socket.timeout:
                    code = self.process.poll()
                    if code is not None or time.monotonic() > until:
                        self.process.kill()
                        with open(output_path, encoding="utf-8", errors="replace") as file:
                            raise NotStarted(file.read(), code if code is not None else -1, read_cause(cause)) from None
        self.answers = self.connection.makefile("r", encoding="utf-8")
        self.connection.settimeout(None)
        self.read()

    def read(self) -> dict[str, Any]:
        line = self.answers.readline()
        if not line:
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, order: dict[str, Any], limit: int) -> tuple[dict[str, Any], bool]:
        """(exit code of the first rank that failed or 0, its name, and how it ended; whether the time ran out)."""
        self.connection.sendall(json.dumps(order).encode() + b"\n")
        pids = self.read()["pids"]
        try:
            timed_out = not self.wait(limit)
        except BaseException:  # of another plugin, or the user's
            self.stop(pids)
            with contextlib.suppress(EOFError, OSError):
                self.read()
            raise
        if timed_out:
            self.stop(pids)
        return self.read(), timed_out

    def wait(self, seconds: float) -> bool:
        """That the answer is there."""
        import select

        return bool(select.select([self.connection], [], [], seconds)[0])

    def stop(self, pids: list[int]) -> None:
        for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
            for pid in pids:
                for kill in (os.killpg, os.kill):  # the process alone where it is about to have a group
                    with contextlib.suppress(ProcessLookupError):
                        kill(pid, number)
                        break
            if self.wait(patience):
                return

    def close(self) -> None:
        self.answers.close()
        self.connection.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.folder.cleanup()


SERVERS: dict[str, Server] = {}


def server(command: list[str], path: list[str], environment: dict[str, str], cwd: str, tie: Callable[[], None]) -> Server:
    """A server of this kind, which may have run tests before. Raises NotStarted."""
    kept = {name: value for name, value in environment.items() if name not in OF_A_TEST}
    key = json.dumps([command, kept], sort_keys=True)
    instance = SERVERS.pop(key, None)
    if instance is not None and instance.process.poll() is not None:
        instance = None
    if instance is None:
        while len(SERVERS) >= MOST:
            SERVERS.pop(next(iter(SERVERS))).close()
        instance = Server(command, path, kept, cwd, tie)
    SERVERS[key] = instance  # the last is the one that was used last
    return instance


def forget(one: Server) -> None:
    """A server that does not answer."""
    for key in [key for key, other in SERVERS.items() if other is one]:
        del SERVERS[key]
    one.close()


@atexit.register
def close_all() -> None:
    while SERVERS:
        SERVERS.popitem()[1].close()
