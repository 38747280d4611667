"""Where `tidemark exec` writes, what it says first and last, and the cause that it leaves."""
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from testing.said import FOLDER, SITE, TIDEMARK, Said, python


def first_line():
    """Seconds until the first line."""
    begun = time.monotonic()
    with subprocess.Popen([TIDEMARK, "exec", "--", sys.executable, "-c", "pass"], stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": SITE}) as running:
        line = running.stderr.readline()
        took = time.monotonic() - begun
        running.communicate()
    assert line.startswith("tidemark: virtual h100-80g; --mode math computes losses"), line
    return took


def bare_start():
    begun = time.monotonic()
    subprocess.run([sys.executable, "-S", "-E", "-c", "pass"], check=True)
    return time.monotonic() - begun


def test_folders():
    """The default folder, `latest`, --force, the variables of flags, the time that it took last; the first line comes within half a second."""
    os.chdir(FOLDER)
    program = "a = torch.empty(5 << 20, dtype=torch.uint8, device='cuda')"
    result = python(program, "--report").ends(0, "\nreport: ")
    result.check("last time" not in result.err, "nothing is known of the first run")
    folder = Path(result.err.splitlines()[-1].removeprefix("report: ")).parent
    result.check(folder.parent == (FOLDER / "tidemark-out").resolve() and re.fullmatch(r"\d{8}-\d{6}-\d+", folder.name) and os.readlink("tidemark-out/latest") == folder.name
               and json.loads((folder / "report.json").read_text())["run"]["id"] == folder.name, "the run's own folder, and a link to it")
    python(program, "--report").ends(0, "; took ", " last time\n")
    tries, bare = [], []
    while len(tries) < 6 and min(tries, default=1) >= 0.5:
        tries.append(first_line())
        bare.append(bare_start())
    # Beside other work the start of a bare Python says how slow the machine is: about 20 ms where it is quiet. exec starts Python itself and reads its
    # packages, so that it waits more often for a core: it may take three times its share.
    result.check(min(tries) < max(0.5, 60 * min(bare)), f"the first line within half a second: {tries}, of a bare Python {bare}")
    (FOLDER / "mine").mkdir()
    (FOLDER / "mine" / "notes").touch()
    python(program, "--report", "mine").refuses("give --force to replace a report")
    python(program, "--report", "mine", "--force").refuses("there is no report.json")
    python(program, "--report", "one", "--out", "one.json").ends(0)
    (FOLDER / "one" / "left").touch()
    python(program, "--report", "one", "--out", "two.json").refuses("is not an empty folder")
    python(program, "--report", "two", "--out", "one.json").refuses("--force to replace it")
    python(program, "--report", "one", "--force").ends(0, "\nreport: ").check(not (FOLDER / "one" / "left").exists(), "another report in its place")
    python("raise SystemExit(3)", "--out", "one.json", "--force").ends(3)
    python(program, "--report", FOLDER, "--force").refuses("does not empty the current folder")
    python(program, TIDEMARK_GPU="l4-24g", TIDEMARK_MAX_PEAK="1MiB", TIDEMARK_RACES="1", TIDEMARK_NO_RACES="1", TIDEMARK_REPORT="by-name").ends(
        5, "virtual l4-24g", "FAIL --max-peak", "by-name/report.html")
    python(program, TIDEMARK_SCHEDULE="nosuch").ends(2, "error: TIDEMARK_SCHEDULE=nosuch: expected instant")


# holds: harness/exec/README.md, Flags
def test_variables():
    """A flag's variable refuses what the flag refuses, of every flag that has one: in the same words, or by the rule that holds for all commands."""
    flags = sorted(set(re.findall(r"^  (--[a-z-]+)", Said("--help").out, re.M)) - {"--help", "--out", "--force"})
    refused = []
    for flag in flags:
        for value in "nosuch", "-1", "1e99":
            by_flag = Said(f"{flag}={value}", "--", "true", folder=FOLDER)
            if by_flag.code != 2:
                continue
            refused.append(flag)
            name = "TIDEMARK_" + flag[2:].upper().replace("-", "_")
            by_variable = Said("--", "true", folder=FOLDER, **{name: value})
            by_rule = by_variable.err.startswith(f"error: {name}={value}: expected ") and by_variable.err.count("\n") == 1
            by_variable.check(by_variable.code == 2 and (by_rule or by_variable.err.endswith(by_flag.err)), f"as {flag}={value}: {by_flag.err}")
    assert {"--schedule", "--mode", "--timeout", "--races", "--color"} <= set(refused), refused


def test_causes():
    """The file for the cause of a run without a result: what exec refuses, what a process of the program refuses, and which process failed first; nothing after a good end."""
    def cause(number, *words, **more):
        file = FOLDER / f"cause{number}"
        result = Said(*words, TIDEMARK_EXEC_SETTINGS=json.dumps({"cause": str(file)}), **more)
        result.cause = json.loads(file.read_text()) if file.exists() else None
        return result

    def holds(result, code, process, text):
        result.ends(code)
        result.check(result.cause["code"] == code and result.cause["process"] == process and text in result.cause["text"], result.cause)

    command = ("--", sys.executable, "-c")
    holds(cause(1, "--gpu", "abacus", "--", "true"), 2, "", "exec: ")
    other = cause(2, "--report", FOLDER / "async", *command, "import torch; torch.ones(1, device='cuda')", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    holds(other, 2, "", "exec: --report needs PyTorch's own allocator")
    other.ends(2, "error: exec: --report needs PyTorch's own allocator: cudaMallocAsync")
    ends = "import os, signal, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)"
    holds(cause(3, "--ranks", 2, *command, ends), 137, "rank 1", "rank 1 was ended by signal 9 (Killed)")
    holds(cause(4, *command, "print('error: exec: is the text of a program'); raise SystemExit(2)"), 2, sys.executable, "ended with exit code 2")
    good = cause(5, *command, "print('error: exec: is the text of a program')").ends(0)
    good.check(good.cause is None, "a good end has no cause")


def test_room():
    """A limit of files of 1.5 MB in the place of a file system that is full: the peaks are whole, and the history says that it is not."""
    script, folder = FOLDER / "room.py", FOLDER / "the room's"
    script.write_text("""
import torch
kept = []
for step in range(60000):
    kept.append(torch.empty(step % 997 + 1, device="cuda"))
    if step % 3:
        kept.pop(0)
torch.empty(64 << 20, device="cuda")
""")
    result = Said("--report", folder, "--", "sh", "-c", f"ulimit -f 3000; exec {sys.executable} {script}").ends(0, ": its history ends early: the file system had no room for more")
    command, = re.findall("^all parts: (.*)", result.err, re.M)
    device = json.loads((folder / "report.json").read_text())["trials"][0]["program"]["ranks"][0]["devices"][0]
    result.check(device["allocated"] > 256 << 20, f"the peak is after it: {device}")
    result.check(": its history ends early: " in (folder / "report.html").read_text(), "the page says it")
    shown = subprocess.run([TIDEMARK, *shlex.split(command)[1:]], capture_output=True, text=True, check=True).stdout
    result.check("the history ends early: " in shown, "so does the command that shows all parts")
