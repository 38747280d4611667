"""Processes of `tidemark exec` that a launcher starts as one job have one report. The launchers are those of this
machine, or variables as a launcher sets them."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from testing.lacks import lacks
from testing.said import FOLDER, HERE, MIB, SITE, TIDEMARK, free_port

PROGRAM = (sys.executable, str(HERE / "launched.py"))
FILES = "junit.xml rank0.record rank0.trace.json.gz rank1.record rank1.trace.json.gz report.html report.json summary.md"


def check(holds, what, seen=""):
    if not holds:
        pytest.fail(f"{what}\n{seen}")


def alone():
    """The environment of a process that no launcher has started."""
    names = ("OMPI_COMM", "PMI", "MPI_LOCAL", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "TIDEMARK_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(names)}, "PYTHONPATH": SITE}


def report_of(folder):
    """The exit code and the failures of its program, and by rank the bytes that were allocated at the peak."""
    trial, = json.loads((folder / "report.json" if folder.is_dir() else folder).read_text())["trials"]
    program, failures = trial["program"], [verdict["why"] for verdict in trial["verdicts"] if verdict["status"] == "fail"]
    return program["exit_code"], failures, {one["rank"]: [device["allocated"] for device in one["devices"]] for one in program["ranks"]}


def step(rank, size=2, number=1, **more):
    """The variables that srun sets for one of its tasks."""
    return {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": str(number), "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(size),
            "SLURM_LOCALID": str(rank), "SLURM_STEP_TASKS_PER_NODE": str(size), "SLURM_NODEID": "0", **more}


class Task:
    """A process of a job, as if a launcher had started it."""

    def __init__(self, variables, *words):
        self.running = subprocess.Popen([TIDEMARK, "exec", *map(str, words)], env={**alone(), **variables}, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def ends(self, code, *texts):
        self.out, self.err = self.running.communicate(timeout=200)
        check(self.running.returncode == code, f"exit code {code}, not {self.running.returncode}", self.out + self.err)
        for text in texts:
            check(text in self.err, f"no {text!r} on stderr", self.err)
        return self

    def refuses(self, *texts):
        self.ends(2, *texts)
        check(self.err.startswith("error: exec: ") and self.err.count("\n") == 1 and not self.out, "one line alone", self.err)


def python(text):
    return "--", sys.executable, "-c", "import os, time, torch\n" + text


def allocate(mebibytes, then=""):
    return python(f"x = torch.empty({mebibytes} << 20, dtype=torch.uint8, device='cuda')\n{then}")


def until(holds, what):
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.05)
    check(False, what)


def ended(pid):
    """True if the process has ended, also before its parent has waited for it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def launch(launcher, folder):
    """Both ranks under a launcher: one table, one report, one file of --out."""
    out = folder.with_suffix(".json")
    done = subprocess.run([*launcher, TIDEMARK, "exec", "--report", folder, "--out", out, "--", *PROGRAM, free_port()], env=alone(), capture_output=True,
                          text=True, timeout=200, check=False)
    output = done.stdout + done.stderr
    check(done.returncode == 0, f"exit code {done.returncode}", output)
    check(done.stdout.replace("\r", "").splitlines() == ["sees 2"] * 2, "each rank sees as many GPUs as there are ranks", output)
    check(done.stderr.count("peaks, MiB") == done.stderr.count("report: ") == 1, "one table", output)
    check(" ".join(sorted(file.name for file in folder.iterdir())) == FILES, "one report, and nothing else", sorted(folder.iterdir()))
    figures = report_of(folder)
    check(figures == (0, [], {0: [MIB + 4096], 1: [2 * MIB + 4096]}) == report_of(out), "both ranks", figures)


# holds: harness/exec/README.md, Under mpirun and srun
def test_mpirun():
    launch(["mpirun", "-n", "2"], FOLDER / "job")


# night: repeats exec_job_mpirun under another launcher
def test_mpich():
    if not shutil.which("mpiexec.mpich"):
        lacks("mpiexec.mpich (package mpich)")
    launch(["mpiexec.mpich", "-n", "2"], FOLDER / "job")


# night: repeats exec_job_mpirun with the variables of srun
def test_srun():
    """Five tasks on three machines, which see one GPU, one and three. The tasks 0 and 4 run."""
    folder = FOLDER / "job"
    for rank, sees in ((0, 1), (4, 3)):
        task = Task(step(rank, 5, SLURM_STEP_TASKS_PER_NODE="1(x2),3", SLURM_NODEID=str(rank // 2)), "--report", folder,
                    *allocate(rank + 1, "print(torch.cuda.device_count())")).ends(0, "FAIL unknown: process 3 of the 5 that srun started had not begun")
        check(task.out == f"{sees}\n", f"task {rank} sees {sees} GPUs", task.out)
    _, failures, peaks = report_of(folder)
    check(peaks == {0: [MIB], 4: [5 * MIB]} and len(failures) == 3, "those that ran are in the report", (failures, peaks))
    # A batch script is not a task of srun, and a task alone is not one of several.
    for number, variables in enumerate(({**step(0, 8), "SLURM_STEP_ID": ""}, step(0, 1))):
        task = Task(variables, "--report", FOLDER / f"alone{number}", *allocate(1, "print(torch.cuda.device_count())")).ends(0, "report: ")
        check(task.out == "1\n", "one process alone", task.out)


# night: repeats exec_job_mpirun under another launcher
def test_torchrun():
    """torchrun starts tidemark exec (--no-python), and not the other way round."""
    folder = FOLDER / "job"
    variables = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": "0", **step(0, 1)}  # under srun
    both = [Task({**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}, "--report", folder, *allocate(1 + rank, "print(torch.cuda.device_count())")) for rank in range(2)]
    check([task.ends(0).out for task in both] == ["2\n"] * 2 and report_of(folder) == (0, [], {0: [MIB], 1: [2 * MIB]}), "both ranks", report_of(folder))


# night: waits in both orders for processes that end late
def test_order():
    """Whichever process ends last reports for both; also where one begins when the other has ended."""
    for first, last in ((0, 1), (1, 0)):
        folder = FOLDER / f"order{first}"
        waits = Task(step(last), "--report", folder, *allocate(last + 1, f"while not os.path.exists('{folder}/ranks/{first}/ended'): time.sleep(0.05)"))
        until((folder / "ranks" / str(last) / "alive").exists, "the other process has begun")
        result = Task(step(first), "--report", folder, *allocate(first + 1)).ends(0)
        check(result.err == "", "a process that leaves the report to another one prints nothing", result.err)
        waits.ends(0, "rank 0 ", "rank 1 ", "report: ")
        check(report_of(folder) == (0, [], {0: [MIB], 1: [2 * MIB]}), "both ranks")
    folder = FOLDER / "later"
    Task(step(1), "--report", folder, *allocate(2)).ends(0, "process 0 of the 2 that srun started had not begun")
    check(report_of(folder)[2] == {1: [2 * MIB]}, "a report of what has run")
    # Two processes may say that they are the same rank: each keeps its row and its snapshot.
    task = Task({**step(0), "RANK": "1"}, "--report", folder, *allocate(3)).ends(0, "report: ")
    check(task.err.count("\nrank 1 ") == 2 and report_of(folder)[:2] == (0, []) and not (folder / "ranks").exists(), "both processes", task.err)
    check({file.name for file in folder.glob("*.record")} == {"rank1.record", "rank1-1.record"}, "two snapshots", sorted(folder.iterdir()))
    # Under two schedules, in two folders.
    folder = FOLDER / "schedules"
    both = [Task(step(rank), "--schedule", "instant,lagging", "--report", folder, *allocate(1)) for rank in range(2)]
    output = "".join(task.ends(0).err for task in both)
    check(output.count("schedule lagging:") == 1 and output.count("highest - lowest") == 1, "one bracket", output)
    check([len(trial["program"]["ranks"]) for trial in json.loads((folder / "report.json").read_text())["trials"]] == [2, 2], "both ranks under both")


# night: ends at random moments; exec_job_killed has one of each kind by day
def test_kills():
    """A program alone, that says every allocation that it has made. Killed at moments drawn at random, by itself or tidemark with it, it has a
    report of exactly what it had allocated: all that it has said, and at most the allocation that it was in."""
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    for number in range(6):
        last, folder, who = draw.randrange(1, 200), FOLDER / f"kills{number}", ("program", "tidemark", "both")[number % 3]
        task = Task({}, "--report", folder, *python("keep = []\nfor i in range(10000):\n    keep.append(torch.empty(512 << 10, dtype=torch.uint8, device='cuda'))\n"
                                                    "    os.write(1, f'{i + 1} {os.getpid()}\\n'.encode())"))
        for line in task.running.stdout:
            if int(line.split()[0]) >= last:
                break
        program = int(line.split()[1])
        for pid in {"program": [program], "tidemark": [task.running.pid], "both": [task.running.pid, program]}[who]:
            os.kill(pid, signal.SIGKILL)
        rest = task.running.stdout.read()  # of the allocations until the signal came
        made = int((rest.splitlines()[-1] if rest else line).split()[0])
        task.running.communicate(timeout=200)
        if who != "program":
            until(lambda: ended(program), "the program ends with tidemark")
            done = subprocess.run([TIDEMARK, "report", folder], capture_output=True, text=True, check=False, timeout=200)
            check(done.returncode == 0, f"seed {seed}, {number}: tidemark report", done.stderr)
        (peak,), = report_of(folder)[2].values()
        shown = json.loads(subprocess.run([TIDEMARK, "snapshot", "show", str(next(folder.glob("*.record"))), "--format", "json"], capture_output=True, check=True).stdout)
        active = shown["devices"][0]["peak"]["active"]
        check(made * (512 << 10) <= peak == active <= (made + 1) * (512 << 10), f"seed {seed}, {number}: killed {who} after {made} blocks", (peak, active))


def test_killed():
    """A process that dies, in any way, loses nothing of what was recorded, and a report says what it lacks."""
    forever = "print('up', flush=True)\ntime.sleep(1000)"
    folder = FOLDER / "fails"
    survivor = Task(step(0), "--report", folder, *allocate(1, forever))
    check(survivor.running.stdout.readline() == "up\n", "the other process runs")
    time.sleep(1.5)
    Task(step(1), "--report", folder, *allocate(2, "raise SystemExit(5)")).ends(5, "FAIL unknown: process 0 of the 2 that srun started had not ended", "report: ")
    code, failures, peaks = report_of(folder)
    check((code, len(failures), peaks) == (5, 1, {0: [MIB], 1: [2 * MIB]}), "a process that fails reports for both before the launcher kills the other", peaks)
    survivor.running.send_signal(signal.SIGTERM)
    survivor.ends(128 + signal.SIGTERM, "report: ")
    check(report_of(folder) == (5, [], {0: [MIB], 1: [2 * MIB]}) and not (folder / "ranks").exists(), "the launcher's signal reaches the other, which reports again")

    folder, out = FOLDER / "killed", FOLDER / "killed.json"
    task = Task(step(0), "--report", folder, "--out", out, *allocate(1, forever))
    check(task.running.stdout.readline() == "up\n", "the other process runs")
    result = Task(step(1), "--report", folder, "--out", out, *allocate(2)).ends(0)
    check(result.err == "" and not out.exists(), "the report is left to the other", result.err)
    time.sleep(1.5)
    task.running.kill()
    task.ends(-signal.SIGKILL)
    check((folder / "ranks" / "job").exists() and not (folder / "report.json").exists(), "the records are kept", sorted(folder.iterdir()))

    def tidemark(*words):
        return subprocess.run([TIDEMARK, *words], capture_output=True, text=True, check=False, timeout=200)

    result = tidemark("compare", folder, folder)
    check(result.returncode == 2 and result.stderr.count("\n") == 1 and f"write it by tidemark report {folder}" in result.stderr, "one line says what to do", result.stderr)
    result = tidemark("report", folder)
    code, failures, peaks = report_of(folder)
    check(result.returncode == 0 and (code, len(failures), peaks) == (0, 1, {0: [MIB], 1: [2 * MIB]}), "a report of the records", (failures, peaks))
    check("process 0 of the 2 that srun started had not ended" in failures[0] and not (folder / "ranks").exists(), "says what it lacks")
    page = (folder / "report.html").read_text(encoding="utf-8")
    check("had not ended" in page and tidemark("report", folder).returncode == 0 and (folder / "report.html").read_text(encoding="utf-8") == page, "as any other report")
    # --out alone
    task = Task(step(0), "--out", out, *allocate(1, forever))
    check(task.running.stdout.readline() == "up\n", "the process runs")
    time.sleep(1.5)
    task.running.kill()
    task.ends(-signal.SIGKILL)
    result = tidemark("report", f"{out}.ranks", "--json")
    check(result.returncode == 0 and [one["rank"] for one in json.loads(result.stdout)["trials"][0]["program"]["ranks"]] == [0], "its records are printed", result.stderr)


# night: waits for a reader that ends
def test_reader():
    """`tidemark exec | head` writes its report, and its program ends as it would; a job that was killed is ended by `tidemark report`, and then replaced."""
    folder = FOLDER / "reader"
    task = Task({}, "--report", folder, *allocate(1))
    check(task.running.stderr.readline().startswith("tidemark: virtual"), "it begins")
    task.running.stderr.close()
    check(task.running.wait(200) == 0 and report_of(folder)[2] and not (folder / "ranks").exists(), "the report is whole")
    piped = Task({}, "--", "sh", "-c", "yes | head -1").ends(0)
    check("Broken pipe" not in piped.err, "a broken pipe ends a program as ever", piped.err)
    task = Task({}, "--report", folder, "--force", *allocate(1, "print('up', flush=True)\ntime.sleep(1000)"))
    check(task.running.stdout.readline() == "up\n", "the process runs")
    task.running.kill()
    task.ends(-signal.SIGKILL)
    words = ("--report", folder, "--force", *allocate(1))
    Task({}, *words).refuses(f"has the records of a job that has not written its report: if the job has ended, write it by tidemark report {folder}")
    done = subprocess.run([TIDEMARK, "report", folder], capture_output=True, text=True, check=False, timeout=200)
    check(done.returncode == 0, "its report is written", done.stderr)
    Task({}, *words).ends(0)


# night: waits for two jobs in one folder
def test_two():
    """Two jobs in one folder, and other mistakes."""
    folder, out = FOLDER / "two", FOLDER / "two.json"
    task = Task(step(0), "--report", folder, "--out", out, *allocate(1, "print('up', flush=True)\ntime.sleep(1000)"))
    check(task.running.stdout.readline() == "up\n", "one job runs")
    words = ("--report", folder, "--", "true")
    Task(step(1, number=2), *words).refuses("belongs to another job, srun 17.1 with 2 processes, and this is one of 2 of srun 17.2", "name another place")
    Task(step(1, size=3), *words).refuses("belongs to another job, srun 17.1 with 2 processes, and this is one of 3 of srun 17.1")
    Task({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "44"}, *words).refuses("srun 17.1 with", "mpirun 44")
    Task(step(0), *words).refuses("has process 0 of srun 17.1 already")
    Task({}, *words).refuses("is not an empty folder")
    task.running.send_signal(signal.SIGTERM)
    task.ends(128 + signal.SIGTERM, "report: ")
    Task(step(1, number=2), *words).refuses("belongs to another job")  # it may still have its second process
    Task(step(1, number=2), "--out", out, "--", "true").refuses("exists already")
    Task(step(1), "--out", FOLDER / "none" / "x.json", "--", "true").refuses("cannot be written")
    Task(step(1), "--ranks", 2, "--", "true").refuses("--ranks 2 under srun, which has started 2 processes already")
    Task(step(1), "--compare", out, "--", "true").refuses("add --out FILE or --report DIR")
    mine = FOLDER / "mine" / "ranks"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("")
    Task(step(1), "--report", mine.parent, "--", "true").refuses("mine/ranks is there and is not that of a job")
    # Figures of a job are compared and judged by the process that reports.
    both = [Task(step(rank), "--out", FOLDER / "base.json", *allocate(1)) for rank in range(2)]
    check(sum(task.ends(0).err.count("peaks, MiB") for task in both) == 1, "one table")
    both = [Task(step(rank), "--out", FOLDER / "more.json", "--compare", FOLDER / "base.json", "--max-peak", "2MiB", *allocate(1 + rank)) for rank in range(2)]
    ended = [task.running.wait(200) for task in both]
    output = "".join(task.running.stderr.read() for task in both)
    check(sorted(ended) == [0, 5], "the process that reports fails", ended)
    check("FAIL --max-peak: rank 1 reserves 20 MiB, 18 MiB more than 2 MiB" in output and "FAIL --compare: " in output and "unknown" not in output, "the verdicts that fail", output)
