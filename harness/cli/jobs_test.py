"""--executor local writes the report that one process writes; jobs that die, signals and mistakes."""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from command import BINARY, environment, environments, read, run, runs_scenarios

RUN = ("run", "fsdp_prefetch/stash", "--size", "smoke", "--ranks", "2", "--history", "off", "--color", "never")


def of_job(index):
    """Process ids of a job's tidemark and of its ranks, of this test alone."""
    return [process for process, variables in environments()
            if variables.get("JOBS_TEST") == os.getcwd() and variables.get("TIDEMARK_JOB", "").startswith(f"{index} ") and runs_scenarios(process)]


def start(*words):
    return subprocess.Popen([BINARY, *RUN, *words, "--executor", "local"], env=environment(JOBS_TEST=os.getcwd()), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


# night: the same suite twice, once as jobs
def test_the_report_is_that_of_one_process():
    wanted = ("--numbers", "--events", "--out")
    for folder, more in (("alone", ()), ("jobs", ("--executor", "local", "--executor-option", "timeout_min=5"))):
        done = run(*RUN, *wanted, folder, *more)
        assert done.returncode == 0, done.stderr + done.stdout
    assert files("alone") == files("jobs")
    for how in ((), ("--events",), ("--numbers",)):
        done = run("compare", *how, "alone", "jobs", *(() if how else ("--threshold", "time=100%")))
        assert done.returncode == 0, done.stdout + done.stderr
    alone, jobs = read("alone"), read("jobs")
    for left, right in zip(alone["trials"], jobs["trials"], strict=True):
        assert [variant["files"] for variant in left["variants"]] == [variant["files"] for variant in right["variants"]]
    assert "TIDEMARK_JOB" not in json.dumps(jobs["run"])
    assert len(jobs["trials"]) == 3


def test_a_job_that_dies_is_named():
    running = start("--out", "killed")
    while not (processes := of_job(1)) and running.poll() is None:
        time.sleep(0.02)
    assert processes, "the job has ended before it was seen"
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, output = running.communicate(timeout=200)
    assert running.returncode == 3, output
    report = read("killed")
    assert [trial.get("not_run", "") == "" for trial in report["trials"]] == [True, False, True]
    assert re.search(r"^its job \d+ left no report: COMPLETED", report["trials"][1]["not_run"]), report["trials"][1]["not_run"]
    assert re.search(r"^1 of 3 jobs did not finish their trial \(.*/killed/jobs/logs\)$", report["run"]["ended"]), report["run"]["ended"]
    assert re.search(r"job \d+ \(fsdp_prefetch/smoke/r2/math/calibrated\): COMPLETED, exit code -9", output), output


# night: waits for jobs that are interrupted
def test_an_interrupted_run_keeps_what_has_ended():
    running = start("--out", "stopped")
    for _ in range(3000):
        if Path("stopped/jobs/0/report.json").exists() and of_job(1):
            break
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGINT)
    _, output = running.communicate(timeout=60)
    assert running.returncode == 130, output
    report = read("stopped")
    assert report["trials"][0].get("not_run", "") == ""
    assert report["trials"][2]["not_run"] != ""
    time.sleep(1)
    assert [of_job(index) for index in range(3)] == [[], [], []]


def test_mistakes():
    jobs = (*RUN, "--out", "none", "--executor", "local")
    for words, code, says, more in (
            ((*jobs, "--executor-option", "x"), 2, "is not NAME=VALUE", {}),
            ((*jobs, "--executor-option", "x=1"), 2, "error: --executor: Parameter 'x'", {}),
            ((*jobs[:-1], "lsf"), 2, "lsf not in {local,slurm}", {}),
            ((*jobs[:-1], "slurm"), 3, "there is no Slurm here", {"PATH": "/nosuch", "TIDEMARK_PYTHON": sys.executable}),
            (jobs, 3, "has no submitit: pip install submitit", {"PYTHONPATH": ""}),
            (jobs, 3, "error: --executor needs Python: there is no nosuch", {"TIDEMARK_PYTHON": "nosuch"}),
            (jobs, 2, "--executor under mpirun, which has started 2 processes already", {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})):
        done = run(*words, **more)
        assert done.returncode == code, done.stderr
        assert says in done.stderr
        assert done.stderr.count("error: ") == 1, done.stderr
        assert not Path("none").exists(), words
