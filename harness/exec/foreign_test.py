"""Another user of the machine (uid 65534, by setpriv) beside a run of this one: what that user can reach of it. Needs root, who becomes that user."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from testing.said import SITE, TIDEMARK, drawn

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can become another user, by setpriv")

# As ZeroMQ's peers begin (ZMTP 3.1, mechanism NULL); then one message of endless parts.
FLOOD = r"""
import os, socket, struct, sys, time
pid, seconds = int(sys.argv[1]), float(sys.argv[2])
names = sorted({line.split()[-1] for line in open("/proc/net/unix") if f"@tidemark-{pid}-" in line})
assert names, "no socket of the rank is there"
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(5)
try:
    connection.connect("\0" + names[0][1:])
    connection.sendall(b"\xff" + bytes(7) + b"\x01\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    greeting = b""
    while len(greeting) < 64:
        part = connection.recv(64)
        if not part:
            raise ConnectionResetError
        greeting += part
    body = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 4) + b"PUSH"
    connection.sendall(b"\x04" + bytes([len(body)]) + body)
    if not connection.recv(200):
        raise ConnectionResetError
    part, until = b"\x03" + struct.pack(">Q", 1 << 20) + bytes(1 << 20), time.monotonic() + seconds
    while time.monotonic() < until:
        connection.sendall(part)
    print("accepted")
except OSError:
    print("refused")
"""

TRAIN = """
import os, pathlib, time, torch, torch.distributed as dist
dist.init_process_group("nccl")
x = torch.ones(1024, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
pathlib.Path("ready" + os.environ["RANK"]).write_text(str(os.getpid()))
while not pathlib.Path("go").exists():
    time.sleep(0.05)
dist.all_reduce(x)
torch.cuda.synchronize()
dist.destroy_process_group()
"""


def as_nobody(*words, **more):
    return subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *map(str, words)], capture_output=True, text=True, check=False, timeout=60, **more)


@pytest.fixture
def folder():
    """That every user can enter, as /tmp."""
    place = Path(tempfile.mkdtemp(prefix="foreign-", dir="/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place, ignore_errors=True)


def memory_of(pid):
    return next(int(line.split()[1]) << 10 for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


def test_a_ranks_socket(folder):
    """Another user finds the name of a rank's socket, and is cut off before a byte is read: the rank's memory does not grow, and the run ends well."""
    (folder / "train.py").write_text(TRAIN)
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # one that the other user may run too
    environment = {**os.environ, "PYTHONPATH": SITE}
    with subprocess.Popen([TIDEMARK, "exec", "--ranks", "2", "--", sys.executable, "train.py"], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 300
        while not all((folder / f"ready{rank}").exists() and (folder / f"ready{rank}").read_text() for rank in (0, 1)):
            assert running.poll() is None and time.monotonic() < until, running.stderr.read()
            time.sleep(0.1)
        for rank in (0, 1):
            pid = int((folder / f"ready{rank}").read_text())
            before = memory_of(pid)
            said = as_nobody(python, "-c", FLOOD, pid, 3)
            assert said.stdout == "refused\n", said
            assert memory_of(pid) < before + (64 << 20)
        (folder / "go").touch()
        _, err = running.communicate(timeout=300)
    assert running.returncode == 0, err


def test_open_tells_no_other_user(folder):
    """The address of `tidemark open` stands in no command line, and the file that leads to it is this user's alone."""
    report = folder / "report"
    report.mkdir()
    (report / "report.json").write_text("{}")
    (report / "report.html").write_text("<p>secret page")
    browser = folder / "browser"
    browser.write_text(f"#!/bin/sh\necho \"$1\" > {folder}/given\nsleep 20\n")
    browser.chmod(0o755)
    with subprocess.Popen([TIDEMARK, "open", report], env={**os.environ, "BROWSER": f"{browser} %s &"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            address = running.stdout.readline().split(": ")[1].strip()
            until = time.monotonic() + 60
            while not (folder / "given").exists() or not (folder / "given").read_text():
                assert time.monotonic() < until
                time.sleep(0.1)
            given = (folder / "given").read_text().strip()
            assert given.startswith("file://")
            page = Path(given.removeprefix("file://"))
            assert address in page.read_text()
            seen = as_nobody("sh", "-c", f"cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat {page}; ls {page.parent}")
            secret = address.split("/")[3]
            assert secret and secret not in seen.stdout, "another user has read the address"
            assert "Permission denied" in seen.stderr
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(timeout=30)
    assert not page.exists()


def test_a_cache_of_another(folder):
    """`tidemark fit` takes no answer from a folder that another user has made, or could write to."""
    (folder / "train.py").write_text("import torch\nx = torch.empty(1 << 20, device='cuda')\n")
    for number, (owner, mode) in enumerate(drawn(((NOBODY, 0o777), (NOBODY, 0o755), (0, 0o777)), 3)):
        cache = folder / f"cache{number}"
        (cache / "fit").mkdir(parents=True)
        os.chown(cache / "fit", owner, owner)
        (cache / "fit").chmod(mode)
        done = subprocess.run([TIDEMARK, "fit", "--cache", cache / "fit", "--vary", "batch=1,2", "--gpu", "t4-16g", "--no-server", "--", sys.executable, "train.py", "{batch}"],
                              cwd=folder, env={**os.environ, "PYTHONPATH": SITE}, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0 and "warning: results are not kept: " in done.stderr, done
        assert not list((cache / "fit").iterdir())
    without = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    planted = Path("/tmp/.cache/tidemark/fit")
    existed = planted.exists()
    done = subprocess.run([TIDEMARK, "fit", "--vary", "batch=1,2", "--gpu", "t4-16g", "--no-server", "--", sys.executable, "train.py", "{batch}"],
                          cwd=folder, env={**without, "PYTHONPATH": SITE, "TMPDIR": str(folder)}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and planted.exists() == existed, done


def test_folders_of_a_run(folder):
    """What a run keeps in TMPDIR while it goes on is this user's alone."""
    (folder / "train.py").write_text("import pathlib, time, torch\nx = torch.ones(4, device='cuda')\npathlib.Path('ready').touch()\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n")
    temporary = folder / "tmp"
    temporary.mkdir()
    with subprocess.Popen([TIDEMARK, "exec", "--", sys.executable, "train.py"], cwd=folder, env={**os.environ, "PYTHONPATH": SITE, "TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 300
        while not (folder / "ready").exists():
            assert running.poll() is None and time.monotonic() < until, running.stderr.read()
            time.sleep(0.1)
        made = [place for place in temporary.iterdir() if place.is_dir()]
        assert made
        for place in made:
            assert as_nobody("ls", place).returncode != 0, place
        (folder / "go").touch()
        running.communicate(timeout=60)
    assert running.returncode == 0
