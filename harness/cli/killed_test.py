"""Runs that are ended in every way, at moments drawn at random (TIDEMARK_TEST_SEED). Whatever was finished is in the report that
tidemark report writes, and nothing else."""
import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

from command import BINARY, environment, environments, passes, read, refuses, runs_scenarios, tidemark

MPIRUN = os.environ.get("MPIEXEC", "mpirun")
RUN = ("run", "ddp_bucket_view", "--size", "smoke", "--ranks", "2", "--history", "off", "--color", "never", "--out")
SEED = os.environ.get("TIDEMARK_TEST_SEED", "1")
DRAWS = int(os.environ.get("TIDEMARK_TEST_CASES", "1"))


def ranks_of(name):
    """The processes of the run of that name, by their rank; its launching process is -1."""
    return {int(variables.get("OMPI_COMM_WORLD_RANK", variables.get("TIDEMARK_RANK", -1))): process
            for process, variables in environments() if variables.get("KILLED_TEST") == name and runs_scenarios(process)}


def kill(*processes, how=signal.SIGKILL):
    for process in processes:
        try:
            os.kill(process, how)
        except ProcessLookupError:
            pass


# How a run is ended: what is sent to its first process, and to its ranks (all, or the one of that number).
WAYS = {
    ("own", "KILL of the parent"): lambda first, ranks: kill(first),
    ("own", "KILL of all at once"): lambda first, ranks: kill(first, *ranks.values()),
    ("own", "KILL of rank 1"): lambda first, ranks: kill(*[ranks[1]] if 1 in ranks else []),
    ("own", "TERM"): lambda first, ranks: kill(first, how=signal.SIGTERM),
    ("mpirun", "TERM"): lambda first, ranks: kill(first, how=signal.SIGTERM),
    ("mpirun", "INT"): lambda first, ranks: kill(first, how=signal.SIGINT),
    ("mpirun", "KILL of rank 0"): lambda first, ranks: kill(*[ranks[0]] if 0 in ranks else []),
    ("mpirun", "TERM of rank 1"): lambda first, ranks: kill(*[ranks[1]] if 1 in ranks else [], how=signal.SIGTERM),
    ("mpirun", "KILL of all at once"): lambda first, ranks: kill(first, *ranks.values()),
}


def start(launcher, name, *more):
    words = [MPIRUN, "--oversubscribe", "-n", "2"] if launcher == "mpirun" else []
    given = {key: value for key, value in environment(KILLED_TEST=name).items() if key != "OMPI_MCA_odls_base_sigkill_timeout"}
    with open(f"{name}.err", "w") as err, open(f"{name}.out", "w") as out:
        return subprocess.Popen([*words, BINARY, RUN[0], *more, *RUN[1:], name], env=given, stdout=out, stderr=err, start_new_session=True)


def counts(folder):
    """Of each finished trial: its verdicts, but for those that compare it with the trials of other schedules."""
    return {trial["schedule"]: sorted((verdict["status"], json.dumps(verdict, sort_keys=True)) for verdict in trial["verdicts"]
                                      if not verdict["name"].startswith("bracket/")) for trial in read(folder)["trials"] if not trial.get("not_run")}


# night: ends runs at random moments; not_run_test and fault_test end runs by day
def test_ends():
    """The report has exactly the trials that were finished, however and whenever a run ends."""
    begun = time.monotonic()
    assert start("own", "whole").wait(120) == 0
    seconds, whole = time.monotonic() - begun, counts("whole")
    assert (len(whole), {verdict[0] for trial in whole.values() for verdict in trial}) == (3, {"pass"})
    draw = random.Random(SEED)
    for number, (launcher, way) in enumerate([*WAYS] * DRAWS):
        name, after = f"end{number}", draw.uniform(0, 0.8 * seconds)
        print(f"{launcher}, {way}, after {after:.2f} of {seconds:.2f} s, seed {SEED}")
        process = start(launcher, name)
        while number % 5 and not Path(name, "unfinished/plan").exists():  # of the others some end before they have one
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(after)
        WAYS[launcher, way](process.pid, ranks_of(name))
        process.wait(60)
        check(Path(name), whole)


def await_end(name):
    until = time.monotonic() + 30
    while ranks_of(name) and time.monotonic() < until:
        time.sleep(0.05)
    assert ranks_of(name) == {}, "every process has ended"


def check(folder, whole):
    await_end(folder.name)
    begun = [int(k) for k in re.findall(r"^\[(\d+)/3\]", folder.with_suffix(".err").read_text(), re.M)]
    done = tidemark("report", folder)
    if done.returncode == 2:  # ended before it had a plan
        assert re.search("there is nothing to report|is neither a run's folder", done.stderr), done.stderr
        assert (done.stderr.count("\n"), begun) == (1, []), done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert not (folder / "unfinished").exists()
    assert [file.name for file in folder.rglob("*.partial")] == []
    finished = counts(folder)
    assert finished == {schedule: whole[schedule] for schedule in finished}, "what is finished is whole"
    report = read(folder)
    last = max(begun, default=0)
    assert len(finished) in ((last - 1, last) if last else (0,)), (last, report["run"])
    if not report["run"].get("ended"):  # it may also have ended between its last trial and its report
        assert len(finished) == 3, report["run"]
    again = tidemark("report", folder)
    assert (again.returncode, again.stdout) == (0, done.stdout), "as any other report"


# night: runs a suite three times
def test_resumed():
    """What was finished is taken over as it is, and the whole is what a run without an end gives."""
    assert start("own", "whole").wait(120) == 0
    for launcher in "own", "mpirun":
        first = start(launcher, f"cut {launcher}")
        while not Path(f"cut {launcher}/unfinished/trial-0").exists():
            assert first.poll() is None
            time.sleep(0.01)
        kill(first.pid, *ranks_of(f"cut {launcher}").values())
        first.wait()
        await_end(f"cut {launcher}")
        words = [MPIRUN, "--oversubscribe", "-n", "2"] if launcher == "mpirun" else []
        done = subprocess.run([*words, BINARY, *RUN, f"on {launcher}", "--resume", f"cut {launcher}"], env=environment(),
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        old, new = read(f"cut {launcher}"), read(f"on {launcher}")
        finished = [trial for trial in old["trials"] if not trial.get("not_run")]
        assert 0 < len(finished) < 3
        for trial, taken in zip(finished, new["trials"]):
            assert trial["variants"] == taken["variants"], "taken over"
        assert counts(f"on {launcher}") == counts("whole")
    run = " ".join(RUN[:-1])
    refuses(2, "has other arguments: 'run ddp_bucket_view --size smoke --ranks 2', and this run has", f"{run} --seed 5 --out x --resume whole")
    refuses(2, "and this run has 'run'; tidemark run ddp_bucket_view --size smoke --ranks 2 --resume whole goes on with it", "run --out x --resume whole")
    refuses(2, "has other bytes of each GPU: '83343966208', and this run has '75161927680'", f"{run} --out x --resume whole", TIDEMARK_CAPACITY="70GiB")
    refuses(2, "has other variables: '', and this run has 'CUDA_DEVICE_MAX_CONNECTIONS=1'", f"{run} --out x --resume whole", CUDA_DEVICE_MAX_CONNECTIONS="1")
    refuses(2, "--resume: a run with --events cannot be resumed", f"{run} --events --out x --resume whole")
    refuses(2, "--resume: none", f"{run} --out x --resume none")


# night: waits for a run that goes on
def test_going_on():
    """A run that is still going on is left alone."""
    process = start("own", "going", "tp_buffer_reuse")  # that takes longer
    while not Path("going/unfinished/plan").exists():
        assert process.poll() is None
        time.sleep(0.02)
    refuses(2, "this run is still going on (rank ", "report going")
    refuses(2, "has the records of a run that has not written its report", "compare going going")
    process.terminate()
    assert process.wait(60) == 130
    passes("report going")


def test_cut_off():
    """A half-written file of the session is one line, and nothing is written or lost."""
    process = start("own", "cut")
    while not Path("cut/unfinished/trial-0").exists():
        assert process.poll() is None
        time.sleep(0.01)
    kill(process.pid, *ranks_of("cut").values())
    process.wait()
    await_end("cut")
    draw = random.Random(SEED)
    for name in ("plan", "trial-0"):
        file = Path("cut/unfinished", name)
        text = file.read_bytes()
        for _ in range(20):
            file.write_bytes(text[:draw.randrange(len(text))])
            refuses(2, f"cut/unfinished/{name}: ", "report cut")
            assert not Path("cut/report.json").exists()
        file.write_bytes(text)
    passes("report cut")
