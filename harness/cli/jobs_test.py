#!/usr/bin/env python3
"""jobs_test.py TIDEMARK: --executor local writes the report that one process writes; jobs that die, signals and mistakes."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from command import BINARY, InFolder, environment, environments, read, run, runs_scenarios

RUN = ("run", "fsdp_prefetch/stash", "--size", "smoke", "--ranks", "2", "--history", "off", "--color", "never")


def of_job(index):
    """Process ids of a job's tidemark and of its ranks."""
    return [process for process, variables in environments() if variables.get("TIDEMARK_JOB", "").startswith(f"{index} ") and runs_scenarios(process)]


class Jobs(InFolder):
    def tidemark(self, *words, **more):
        return run(*words, cwd=self.folder, **more)

    def start(self, *words):
        return subprocess.Popen([BINARY, *RUN, *words, "--executor", "local"], cwd=self.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, start_new_session=True)

    def files(self, folder):
        return sorted(str(path.relative_to(self.folder / folder)) for path in (self.folder / folder).rglob("*") if path.is_file())

    def test_the_report_is_that_of_one_process(self):
        wanted = ("--numbers", "--events", "--out")
        for folder, more in (("alone", ()), ("jobs", ("--executor", "local", "--executor-option", "timeout_min=5"))):
            done = self.tidemark(*RUN, *wanted, folder, *more)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertEqual(self.files("alone"), self.files("jobs"))
        for how in ((), ("--events",), ("--numbers",)):
            done = self.tidemark("compare", *how, "alone", "jobs", *(() if how else ("--threshold", "time=100%")))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        alone, jobs = read(self.folder / "alone"), read(self.folder / "jobs")
        for left, right in zip(alone["trials"], jobs["trials"], strict=True):
            self.assertEqual([variant["files"] for variant in left["variants"]], [variant["files"] for variant in right["variants"]])
        self.assertNotIn("TIDEMARK_JOB", json.dumps(jobs["run"]))
        self.assertEqual(len(jobs["trials"]), 3)

    def test_a_job_that_dies_is_named(self):
        running = self.start("--out", "killed")
        for _ in range(1500):
            if processes := of_job(1):
                break
            time.sleep(0.02)
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _, said = running.communicate(timeout=200)
        self.assertEqual(running.returncode, 3, said)
        found = read(self.folder / "killed")
        self.assertEqual([trial.get("not_run", "") == "" for trial in found["trials"]], [True, False, True])
        self.assertRegex(found["trials"][1]["not_run"], r"^its job \d+ left no report: COMPLETED")
        self.assertRegex(found["run"]["ended"], r"^1 of 3 jobs did not finish their trial \(.*/killed/jobs/logs\)$")
        self.assertRegex(said, r"job \d+ \(fsdp_prefetch/smoke/r2/math/calibrated\): COMPLETED, exit code -9")

    def test_an_interrupted_run_keeps_what_has_ended(self):
        running = self.start("--out", "stopped")
        for _ in range(3000):
            if (self.folder / "stopped/jobs/0/report.json").exists() and of_job(1):
                break
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, said)
        found = read(self.folder / "stopped")
        self.assertEqual(found["trials"][0].get("not_run", ""), "")
        self.assertNotEqual(found["trials"][2]["not_run"], "")
        time.sleep(1)
        self.assertEqual([of_job(index) for index in range(3)], [[], [], []])

    def test_mistakes(self):
        jobs = (*RUN, "--out", "none", "--executor", "local")
        for words, code, says, more in (
                ((*jobs, "--executor-option", "x"), 2, "is not NAME=VALUE", {}),
                ((*jobs, "--executor-option", "x=1"), 2, "error: --executor: Parameter 'x'", {}),
                ((*jobs[:-1], "lsf"), 2, "lsf not in {local,slurm}", {}),
                ((*jobs[:-1], "slurm"), 3, "there is no Slurm here", {"PATH": "/nosuch", "TIDEMARK_PYTHON": sys.executable}),
                (jobs, 3, "has no submitit: pip install submitit", {"PYTHONPATH": ""}),
                (jobs, 3, "error: --executor needs Python: there is no nosuch", {"TIDEMARK_PYTHON": "nosuch"}),
                (jobs, 2, "--executor under mpirun, which has started 2 processes already", {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})):
            done = self.tidemark(*words, **more)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
            self.assertFalse((self.folder / "none").exists(), words)


if __name__ == "__main__":
    unittest.main(argv=["jobs_test.py"])
