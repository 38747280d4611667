#!/usr/bin/env python3
"""killed_test.py TIDEMARK MPIRUN: runs that are ended in every way, at moments drawn at random (TIDEMARK_TEST_SEED). Whatever was finished is in the report that
tidemark report writes, and nothing else."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from command import BINARY, InFolder, environment, environments, read, runs_scenarios

MPIRUN = sys.argv[2]
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


class Killed(InFolder):
    def start(self, launcher, name, *more):
        words = [MPIRUN, "--oversubscribe", "-n", "2"] if launcher == "mpirun" else []
        given = {key: value for key, value in environment(KILLED_TEST=name).items() if key != "OMPI_MCA_odls_base_sigkill_timeout"}
        with open(self.folder / f"{name}.err", "w") as err, open(self.folder / f"{name}.out", "w") as out:
            return subprocess.Popen([*words, BINARY, RUN[0], *more, *RUN[1:], name], cwd=self.folder, env=given, stdout=out, stderr=err, start_new_session=True)

    def counts(self, folder):
        """Of each finished trial: its verdicts, but for those that compare it with the trials of other schedules."""
        return {trial["schedule"]: sorted((verdict["status"], json.dumps(verdict, sort_keys=True)) for verdict in trial["verdicts"]
                                          if not verdict["name"].startswith("bracket/")) for trial in read(folder)["trials"] if not trial.get("not_run")}

    def test_what_was_finished_is_reported(self):
        begun = time.monotonic()
        self.assertEqual(self.start("own", "whole").wait(120), 0)
        seconds, whole = time.monotonic() - begun, self.counts(self.folder / "whole")
        self.assertEqual((len(whole), {verdict[0] for trial in whole.values() for verdict in trial}), (3, {"pass"}))
        draw = random.Random(SEED)
        for number, (launcher, way) in enumerate([*WAYS] * DRAWS):
            name, after = f"end{number}", draw.uniform(0, 0.8 * seconds)
            with self.subTest(launcher=launcher, way=way, after=f"{after:.2f} of {seconds:.2f} s", seed=SEED):
                process = self.start(launcher, name)
                while number % 5 and not (self.folder / name / "unfinished/plan").exists():  # of the others some end before they have one
                    self.assertIsNone(process.poll())
                    time.sleep(0.01)
                time.sleep(after)
                WAYS[launcher, way](process.pid, ranks_of(name))
                process.wait(60)
                self.check(self.folder / name, whole)

    def await_end(self, name):
        until = time.monotonic() + 30
        while ranks_of(name) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(ranks_of(name), {}, "every process has ended")

    def check(self, folder, whole):
        self.await_end(folder.name)
        begun = [int(k) for k in re.findall(r"^\[(\d+)/3\]", folder.with_suffix(".err").read_text(), re.M)]
        done = self.tidemark("report", folder)
        if done.returncode == 2:  # ended before it had a plan
            self.assertRegex(done.stderr, "there is nothing to report|is neither a run's folder")
            self.assertEqual((done.stderr.count("\n"), begun), (1, []), done.stderr)
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((folder / "unfinished").exists())
        self.assertEqual([file.name for file in folder.rglob("*.partial")], [])
        finished = self.counts(folder)
        self.assertEqual(finished, {schedule: whole[schedule] for schedule in finished}, "what is finished is whole")
        report = read(folder)
        last = max(begun, default=0)
        self.assertIn(len(finished), (last - 1, last) if last else (0,), (last, report["run"]))
        if not report["run"].get("ended"):  # it may also have ended between its last trial and its report
            self.assertEqual(len(finished), 3, report["run"])
        again = self.tidemark("report", folder)
        self.assertEqual((again.returncode, again.stdout), (0, done.stdout), "as any other report")

    def test_a_run_goes_on_where_it_ended(self):
        """What was finished is taken over as it is, and the whole is what a run without an end gives."""
        self.assertEqual(self.start("own", "whole").wait(120), 0)
        for launcher in "own", "mpirun":
            first = self.start(launcher, f"cut {launcher}")
            while not (self.folder / f"cut {launcher}/unfinished/trial-0").exists():
                self.assertIsNone(first.poll())
                time.sleep(0.01)
            kill(first.pid, *ranks_of(f"cut {launcher}").values())
            first.wait()
            self.await_end(f"cut {launcher}")
            words = [MPIRUN, "--oversubscribe", "-n", "2"] if launcher == "mpirun" else []
            done = subprocess.run([*words, BINARY, *RUN, f"on {launcher}", "--resume", f"cut {launcher}"], cwd=self.folder, env=environment(),
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            old, new = read(self.folder / f"cut {launcher}"), read(self.folder / f"on {launcher}")
            finished = [trial for trial in old["trials"] if not trial.get("not_run")]
            self.assertGreater(len(finished), 0)
            self.assertLess(len(finished), 3)
            for trial, taken in zip(finished, new["trials"]):
                self.assertEqual(trial["variants"], taken["variants"], "taken over")
            self.assertEqual(self.counts(self.folder / f"on {launcher}"), self.counts(self.folder / "whole"))
        run = " ".join(RUN[:-1])
        self.refuses(2, "has other arguments: 'run ddp_bucket_view --size smoke --ranks 2', and this run has", f"{run} --seed 5 --out x --resume whole")
        self.refuses(2, "has other bytes of each GPU: '85017493504', and this run has '75161927680'", f"{run} --out x --resume whole", TIDEMARK_CAPACITY="70GiB")
        self.refuses(2, "has other variables: '', and this run has 'CUDA_DEVICE_MAX_CONNECTIONS=1'", f"{run} --out x --resume whole", CUDA_DEVICE_MAX_CONNECTIONS="1")
        self.refuses(2, "--resume: a run with --events cannot be resumed", f"{run} --events --out x --resume whole")
        self.refuses(2, "--resume: none", f"{run} --out x --resume none")

    def test_a_run_that_is_still_going_on_is_left_alone(self):
        process = self.start("own", "going", "tp_buffer_reuse")  # that takes longer
        while not (self.folder / "going/unfinished/plan").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        self.refuses(2, "this run is still going on (rank ", "report going")
        self.refuses(2, "has the records of a run that has not written its report", "compare going going")
        process.terminate()
        self.assertEqual(process.wait(60), 130)
        self.passes("report going")

    def test_records_that_are_cut_off(self):
        """A half-written file of the session is one line, and nothing is written or lost."""
        process = self.start("own", "cut")
        while not (self.folder / "cut/unfinished/trial-0").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        kill(process.pid, *ranks_of("cut").values())
        process.wait()
        self.await_end("cut")
        draw = random.Random(SEED)
        for name in ("plan", "trial-0"):
            file = self.folder / "cut/unfinished" / name
            text = file.read_bytes()
            for _ in range(20):
                file.write_bytes(text[:draw.randrange(len(text))])
                self.refuses(2, f"cut/unfinished/{name}: ", "report cut")
                self.assertFalse((self.folder / "cut/report.json").exists())
            file.write_bytes(text)
        self.passes("report cut")


if __name__ == "__main__":
    unittest.main(argv=["killed_test.py"])
