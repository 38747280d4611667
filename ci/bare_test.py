"""ci/bare and .ci/run on stand-ins for root's programs: what is in the bare machine, that the command's exit code is passed on, that 77
says that there is none, that the folder is gone at the end, also when interrupted, and that .ci/run goes without only after 77."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from stand_in import executable

CI = Path(__file__).resolve().parent
STAND_INS = {
    "id": "echo ${ID:-0}",
    "df": "echo Avail; echo $((${FREE:-20} << 20))",
    "dpkg-query": "echo install ok installed",
    "apt-config": "echo 'Acquire::https::CaInfo \"x\";'; echo 'DPkg::Post-Invoke \"x\";'",
    "unshare": 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"',
    "mount": "",
    "debootstrap": '[ -z "$BROKEN" ] || exit 1; for last; do [ ! -d "$last" ] || mkdir -p "$last/etc/apt/apt.conf.d" "$last"/proc "$last"/sys "$last"/dev/shm; done',
    "chroot": 'cd "$1/tidemark" || exit 9; shift; echo "$@" >"$SAID"; cat ../etc/apt/apt.conf.d/machine tracked untracked 2>/dev/null >>"$SAID"; eval "$INSIDE"',
}


# holds: README.md, The suite
def test_bare(tmp_path):
    tree, place, log = tmp_path / "tree", tmp_path / "place", tmp_path / "said"
    for folder in (tree / "ci", tmp_path / "bin", place):
        folder.mkdir(parents=True)
    for name in ("bare", "setup", "environment.sh"):
        shutil.copy(CI / name, tree / "ci" / name)
    for name, text in STAND_INS.items():
        executable(tmp_path / "bin" / name, f"#!/bin/bash\n{text}\n")
    git = lambda *words: subprocess.run(["git", "-C", tree, "-c", "user.name=x", "-c", "user.email=x", *words], check=True, capture_output=True)
    (tree / "tracked").write_text("committed\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    (tree / "tracked").write_text("changed\n")
    (tree / "untracked").write_text("untracked\n")
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TIDEMARK_BARE": str(place), "SAID": str(log), "CI": "true", "PIP_CERT": "c",
                   "PYTHONPATH": "own", "TIDEMARK_DEPS": str(tmp_path / "deps"), "BROKEN": "", "INSIDE": ""}

    def run(*words: str, **more: str) -> tuple[int, str]:
        log.write_text("")
        done = subprocess.run([tree / "ci" / "bare", *words], env={**environment, **more}, capture_output=True, text=True, timeout=60, check=False)
        assert not list(place.iterdir()), f"{words} {more}: nothing is left: {done.stderr}"
        return done.returncode, done.stderr

    for code in (0, 1, 8):
        outcome = run("bookworm", "the", "command", INSIDE=f"exit {code}")
        assert outcome[0] == code and log.read_text(), f"exit code {code} is passed on: {outcome}"
    words = log.read_text()
    assert words.splitlines()[0].endswith("- the command") and "CI=true" in words and "PIP_CERT=c" in words, f"the command, the settings: {words}"
    assert "PYTHONPATH" not in words and "TIDEMARK_DEPS" not in words, f"nothing of this machine's own: {words}"
    assert "Acquire::https::CaInfo" in words and "Post-Invoke" not in words, f"apt's settings of access: {words}"
    assert "changed" in words and "untracked" not in words, f"the tracked files as they are: {words}"
    assert run()[0] == 0 and "./ci/bench && ./ci/test" in log.read_text(), "README's two commands"
    for more, why in (({"ID": "1000"}, "not root"), ({"FREE": "7"}, "less than 8 GiB"), ({"BROKEN": "1"}, "debootstrap failed")):
        code, err = run(**more)
        assert code == 77 and why in err and not log.read_text(), f"{why}: {code} {err}"
    for name, code in (("INT", 130), ("TERM", 143)):
        log.write_text("")
        running = subprocess.Popen([tree / "ci" / "bare"], env={**environment, "INSIDE": "exec sleep 300"}, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not log.read_text().endswith("changed\n") and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(getattr(signal, f"SIG{name}"))
        assert running.wait(30) == code and not list(place.iterdir()), f"interrupted by {name}: {running.returncode}"


def test_run(tmp_path):
    (tmp_path / "ci").mkdir()
    (tmp_path / ".ci").mkdir()
    shutil.copy(CI.parent / ".ci" / "run", tmp_path / ".ci" / "run")
    executable(tmp_path / "ci" / "test", "#!/bin/bash\n[ \"$*\" = --third ] && echo on this machine; exit 5\n")
    for code, ends in ((0, 0), (8, 8), (3, 3), (77, 5)):
        executable(tmp_path / "ci" / "bare", f"#!/bin/bash\n[ \"$*\" = 'bookworm ./ci/test --third' ] && exit {code}\n")
        done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == ends and bool(done.stdout) == bool(done.stderr) == (code == 77), f"bare: {code}, .ci/run: {done}"
