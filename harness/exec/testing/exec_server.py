"""exec_server.py start|stop LINK: a process under `tidemark exec` that has imported torch once, for all tests of a run of ctest: the program of a test is then a copy of it
(../python/tidemark_server.py), where it may be one. SERVED_PATH is the PYTHONPATH of these programs. It ends with `stop`, or with the ctest that has started it. LINK, in the build folder, leads to a new folder
of a short name, since a socket's name has 107 characters at most."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LONGEST = 300  # seconds for Python and the import of torch


def of_all(environment):
    """Without what pytest and pyenv have added for one test."""
    return {name: value for name, value in environment.items() if not name.startswith(("PYTEST_", "PYENV_")) and name not in ("EXEC_SERVER", "OLDPWD", "SERVED_PATH")}


def served(environment):
    """For a process whose programs are copies of the server that the link EXEC_SERVER leads to, if there is one."""
    server = environment.get("EXEC_SERVER")
    return of_all(environment) | ({"TIDEMARK_EXEC_SETTINGS": json.dumps({"server": os.path.realpath(server) + "/server"})} if server else {})


def serve_here(monkeypatch):
    """The same for this process's own environment, in a test of pytest."""
    given = served(os.environ)
    for name in os.environ.keys() - given.keys() - {"PYTEST_CURRENT_TEST"}:  # pytest removes that one itself
        monkeypatch.delenv(name)
    for name in ("COLUMNS", "LINES"):  # readline has set them beside os.environ
        os.unsetenv(name)
    if settings := given.get("TIDEMARK_EXEC_SETTINGS"):
        monkeypatch.setenv("TIDEMARK_EXEC_SETTINGS", settings)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"  # nothing may wait for what its parent has left
    except OSError:
        return False


def serve(folder, tidemark, python, environment):
    """The process of a server with the socket FOLDER/server, and its output in FOLDER/log."""
    script = Path(tidemark).parent / "virtual" / "python" / "tidemark_server.py"
    settings = json.dumps({"serves": str(folder / "environment")})
    with open(folder / "log", "wb") as log:
        return subprocess.Popen([tidemark, "exec", "--", python, script, folder / "server", python], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                                env={**environment, "TIDEMARK_EXEC_SETTINGS": settings})


def watch(folder, starter):
    """Runs the server in this process's own session."""
    environment = {**of_all(os.environ), "PYTHONPATH": os.environ["SERVED_PATH"]}
    server = serve(folder, os.environ["TIDEMARK_BIN"], sys.executable, environment)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        while server.poll() is None and lives(starter):
            time.sleep(0.5)
    finally:
        server.terminate()
        server.wait()
        if costs := os.environ.get("TEST_COSTS"):  # its copies write their own
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            with open(Path(costs) / "exec_server", "a", encoding="ascii") as file:
                file.write(f"{used.ru_utime + used.ru_stime:.3f}\n")


def start(link):
    """Where there is none in the end, tests run as well, and longer."""
    stop(link)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-server-", dir="/tmp"))
    link.symlink_to(folder)
    starter, pid = os.getppid(), os.fork()
    if pid == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for file in (0, 1, 2):  # ctest waits for the end of its tests' output
            os.dup2(null, file)
        watch(folder, starter)
        os._exit(0)
    (folder / "pid").write_text(str(pid))
    until = time.monotonic() + LONGEST
    while not (folder / "server").exists():
        if os.waitpid(pid, os.WNOHANG)[0] or time.monotonic() > until:
            return print(f"there is no server, and each program is a process of its own: {folder / 'log'}")
        time.sleep(0.05)


def stop(link):
    folder = link.resolve()
    try:
        pid = int((folder / "pid").read_text())
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            if str(link) in file.read():
                os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + LONGEST
        while lives(pid) and time.monotonic() < until:
            time.sleep(0.05)
    except (FileNotFoundError, ProcessLookupError):
        pass
    if link.is_symlink():
        link.unlink()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    {"start": start, "stop": stop}[sys.argv[1]](Path(sys.argv[2]))
