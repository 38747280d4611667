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


# night: four runs of fit; exec_foreign_a_cache_of_libraries holds by day that a folder of another user is not taken
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


CONNECT = """
import socket, sys
for place in sys.argv[1:]:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(place)
        print("connected")
    except PermissionError:
        print("refused")
"""


# night: runs every command twice as another user, with imports of torch; exec_foreign_a_ranks_socket and others hold by day what is closed to that user
def test_commands_of_another(folder):
    """Every command of another user on what a run of this one writes, while it goes on and later: each ends with an exit code and a line, and nothing of the run changes."""
    (folder / "train.py").write_text(TRAIN)
    place = folder / "theirs"  # of the other user
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    home = {"HOME": str(place), "TMPDIR": str(place), "PATH": os.environ["PATH"]}
    with subprocess.Popen([TIDEMARK, "exec", "--report", "report", "--", sys.executable, "train.py"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": SITE, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}) as running:
        until = time.monotonic() + 300
        while not (folder / "ready0").exists() or not (folder / "ready0").read_text():
            assert running.poll() is None and time.monotonic() < until, running.stderr.read()
            time.sleep(0.1)
        try:
            commands_on(folder, place, home)
        finally:
            (folder / "go").touch()
        _, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    assert commands_on(folder, place, home) > 5
    subprocess.run([TIDEMARK, "report", folder / "report"], check=True, capture_output=True)  # it is whole


def commands_on(folder, place, home):
    """Runs them; the number of files that were there."""
    report = folder / "report"
    records = [str(one) for one in report.rglob("*") if one.suffix == ".record"]

    def state():
        """Inode, owner and content of each file; what the run itself changes now has no content, and what it adds is its own user's."""
        of_run = report / "ranks"
        files = [file for file in report.rglob("*") if file.is_file()]
        assert all(file.stat().st_uid == os.geteuid() for file in files), files
        return {file: (file.stat().st_ino, b"" if file.is_relative_to(of_run) else file.read_bytes()) for file in files if not (file.is_relative_to(of_run) and file.suffix == ".json")}

    before = state()
    for words in (["report", report], ["report", report, "--json"], ["compare", report, report], ["history", report], ["history", report, "--prune", "1"], ["open", report / "none", "--no-browser"],
                  *(["snapshot", "show", one] for one in records), *(["snapshot", "convert", one, "--to", "json", "--out", report / "new"] for one in records),
                  ["exec", "--report", report, "--", "/bin/true"], ["exec", "--report", report, "--force", "--", "/bin/true"], ["exec", "--out", report / "report.json", "--force", "--", "/bin/true"],
                  ["run", "ddp_bucket_view/bucket_view/smoke", "--mode", "shapes", "--schedule", "instant", "--ranks", "1", "--out", report, "--force"],
                  ["run", "ddp_bucket_view/bucket_view/smoke", "--resume", report], ["fit", "--report", report, "--vary", "a=1,2", "--", "/bin/true", "{a}"]):
        done = as_nobody(TIDEMARK, *words, env=home, cwd=place)
        print(words, done.returncode, done.stderr)
        assert done.returncode in (0, 1, 2, 3, 4), (words, done)
        assert done.returncode in (0, 1, 4) or done.stderr.startswith(("error: ", "tidemark: ")), (words, done)
        assert "fault of tidemark" not in done.stderr, (words, done)
        after = state()
        assert after == before, (words, done, {name for name in {*before, *after} if before.get(name) != after.get(name)})
    return len(before)


# night: starts a server of fit and waits for it; exec_foreign_folders_of_a_run holds by day that its folder is closed
def test_sockets_of_a_server(folder):
    """The servers from which fit forks its programs listen where no other user comes."""
    (folder / "train.py").write_text("import pathlib, time, torch\nx = torch.ones(4, device='cuda')\npathlib.Path('ready').touch()\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n")
    temporary = folder / "tmp"
    temporary.mkdir(mode=0o755)
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    with subprocess.Popen([TIDEMARK, "fit", "--fresh", "--jobs", "1", "--vary", "batch=1,2", "--gpu", "t4-16g", "--", sys.executable, "train.py", "{batch}"], cwd=folder,
                          env={**os.environ, "PYTHONPATH": SITE, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        until = time.monotonic() + 300
        while not (folder / "ready").exists():
            assert running.poll() is None and time.monotonic() < until, running.stdout.read()
            time.sleep(0.1)
        here = [line.split()[-1].removesuffix(".new") for line in Path("/proc/net/unix").read_text().splitlines() if str(temporary) in line]
        said = as_nobody(python, "-c", CONNECT, *here)
        (folder / "go").touch()
        assert here and said.stdout.split() == ["refused"] * len(here), (here, said)
        running.communicate(timeout=300)
    assert running.returncode == 0


def test_a_cache_of_libraries(folder):
    """Libraries that were compiled for another torch, which are code, come from no folder of another user, or that another user can write to."""
    wheels, build = Path(__file__).parents[1] / "virtual/wheels", Path(TIDEMARK).parent / "virtual/python"
    prepare = ("import json, sys; sys.path[:0] = sys.argv[1:3]\nimport prepare\n"
               "try: print(prepare.prepare(sys.argv[3], '9.9.9', '13.0', {**json.load(open(sys.argv[4])), 'virtual': '/nosuch'}, print))\nexcept prepare.CannotPrepare as why: print(why)")
    for number, (owner, mode, why) in enumerate(((NOBODY, 0o755, "belongs to another user"), (NOBODY, 0o777, "belongs to another user"), (0, 0o777, "other users can write to"))):
        cache = folder / f"libraries{number}"
        planted = cache / "tidemark"
        planted.mkdir(parents=True)
        os.chown(planted, owner, owner)
        planted.chmod(mode)
        done = subprocess.run([sys.executable, "-c", prepare, wheels, build, Path(SITE) / "torch", build / "built.json"], env={**os.environ, "XDG_CACHE_HOME": str(cache)},
                              capture_output=True, text=True, timeout=120, check=False)
        assert why in done.stdout and str(planted) in done.stdout, done
        assert not list(planted.iterdir())
