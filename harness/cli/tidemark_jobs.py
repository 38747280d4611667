"""tidemark_jobs.py FOLDER: runs commands as jobs of Slurm, or of this machine, by the library submitit. FOLDER/jobs.json says which:

{"executor": "slurm" or "local", "options": {parameters of submitit}, "cpus": of each job, "jobs": [{"name", "command", "environment", "folder"}]}

Job N leaves what it prints in FOLDER/logs/. FOLDER/ended.json has for each job, in their order, {"job": its number, "state", "code": its exit code or
null, "said": the last line on its stderr}; "state" is COMPLETED where the command ended by itself. Exit code: 0 when all jobs ended, however they did;
130 when a signal ended this process (the jobs are cancelled); 2 and 3, after one line on stderr, when nothing was submitted."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import tidemark_files
from tidemark_text import one_line

ENDED = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "REVOKED"}
LAUNCHED = ("SLURM_", "PMI_", "PMIX_", "OMPI_", "MPI_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "SUBMITIT_")
NEVER = {"PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS"}
PATIENCE = 20  # s until a file system shows what a job has written


def stop(what, code):
    sys.exit(print(one_line(f"error: --executor: {what}"), file=sys.stderr) or code)


try:
    import submitit
    from submitit.core.utils import FailedJobError
except ImportError:
    stop(f"{sys.executable} has no submitit: pip install submitit (TIDEMARK_PYTHON names another Python)", 3)


def run_job(command, environment, folder, dropped):
    """In the job. Its command is started alone, and not as a task of the job's launcher. A job that begins again (requeued) begins anew."""
    shutil.rmtree(folder, ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHED) and name not in dropped}
    return subprocess.run(command, env={**kept, **environment}, check=False).returncode


def of_slurm(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        stop(f"{command[0]}: {(done.stderr.strip() or 'no answer').splitlines()[-1]}", 3)
    return done.stdout


def check_partition(options):
    """Slurm takes a job for a partition without nodes, and lets it wait for ever."""
    wanted = options.get("slurm_partition")
    try:
        rows = [row.split() for row in of_slurm("sinfo", "-h", "-o", "%P %D").splitlines()]
    except FileNotFoundError:
        stop("there is no Slurm here (sinfo is not in PATH)", 3)
    for name, nodes in rows:
        if name.rstrip("*") == wanted or (wanted is None and name.endswith("*")):
            if sum(int(count) for other, count in rows if other == name) == 0:
                stop(f"partition {name.rstrip('*')} has no nodes", 3)
            return
    if wanted is not None and "," not in wanted:
        stop(f"Slurm has no partition {wanted}: it has {', '.join(sorted({name.rstrip('*') for name, _ in rows}))}", 3)


class Jobs:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.plan = json.loads((self.folder / "jobs.json").read_text())
        self.local = self.plan["executor"] == "local"
        self.waiting = list(enumerate(self.plan["jobs"]))
        self.running = {}  # number -> [job of submitit, when its end was first seen, its last state]
        self.results = [None] * len(self.waiting)
        self.interrupted = False
        self.reason = ""  # why Slurm's jobs wait
        # submitit gives a job on this machine the GPUs that it asks for, which are none.
        self.dropped = ("CUDA_VISIBLE_DEVICES",) if self.local else ()
        self.given = {name: os.environ[name] for name in self.dropped if name in os.environ}

    def submit(self, executor, count):
        with executor.batch():
            batch = [(index, executor.submit(run_job, one["command"], {**self.given, **one["environment"]}, one["folder"], self.dropped)) for index, one in self.waiting[:count]]
        del self.waiting[:count]
        self.running.update({index: [job, None, ""] for index, job in batch})

    def states(self):
        """By job id, as Slurm has them; it forgets a job some minutes after its end. One that Slurm accepts and will never start has that as its state."""
        by_number = {}
        for job in {job.job_id.split("_")[0] for job, *_ in self.running.values()}:
            done = subprocess.run(["squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%i %T %r"], capture_output=True, text=True, check=False)
            if done.returncode != 0 and "Invalid job id" not in done.stderr:
                return None  # the controller does not answer: later
            for line in done.stdout.splitlines():
                number, state, self.reason = line.split(maxsplit=2)
                by_number[number] = f"never started, {self.reason}" if state == "PENDING" and self.reason in NEVER else state
        return by_number

    def watch(self):
        """Takes the results of those that have ended."""
        states = {} if self.local else self.states()
        for index, entry in list(self.running.items()):
            job = entry[0]
            if job.paths.result_pickle.exists():
                self.results[index] = self.result(job, "COMPLETED")
            elif self.local and job.done():
                self.results[index] = self.result(job, "FAILED")
            elif self.local or states is None:
                continue
            else:
                state = states.get(job.job_id, "GONE")
                if state == "GONE" and entry[2] in ("", "PENDING"):
                    state = "CANCELLED"  # Slurm keeps no record of a job of an array that never ran
                entry[2] = state if state != "GONE" else entry[2]
                if state.startswith("never"):
                    job.cancel()
                elif state not in ENDED | {"GONE"}:
                    continue
                entry[1] = entry[1] or time.monotonic()
                if time.monotonic() - entry[1] < PATIENCE and state in ("COMPLETED", "GONE"):
                    continue  # its result may appear yet
                self.results[index] = self.result(job, "FAILED" if state == "COMPLETED" else state)
            del self.running[index]
            one = self.results[index]
            if one["code"] not in (0, 1):
                code = "" if one["code"] is None else f", exit code {one['code']}"
                print(f"job {one['job']} ({self.plan['jobs'][index]['name']}): {one['state']}{code}{': ' if one['said'] else ''}{one['said']}", file=sys.stderr)

    def result(self, job, state):
        code = None
        if state == "COMPLETED":
            try:
                code = job.result()
            except (FailedJobError, submitit.core.utils.UncompletedJobError, OSError) as error:
                return {"job": job.job_id, "state": "FAILED", "code": None, "said": str(error).strip().splitlines()[-1]}
        lines = (job.stderr() or "").strip().splitlines()
        return {"job": job.job_id, "state": state, "code": code, "said": lines[-1] if lines else ""}

    def run(self):
        options = {"cpus_per_task": self.plan["cpus"], "tasks_per_node": 1, "nodes": 1, "name": "tidemark", "timeout_min": 60, **self.plan["options"]}
        if not self.local:
            check_partition(options)
        at_once = max(1, len(os.sched_getaffinity(0)) // self.plan["cpus"]) if self.local else len(self.waiting)
        try:
            executor = submitit.AutoExecutor(folder=self.folder / "logs", cluster=self.plan["executor"])
            executor.update_parameters(**options)
        except (NameError, ValueError, TypeError, RuntimeError) as error:
            stop(str(error).strip().splitlines()[0], 2)
        noted, begun = self.local, time.monotonic()
        total, live = len(self.waiting), sys.stderr.isatty()
        while (self.waiting or self.running) and not self.interrupted:
            if self.waiting and len(self.running) < at_once:
                try:
                    self.submit(executor, at_once - len(self.running))
                except (FailedJobError, subprocess.CalledProcessError) as error:
                    lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
                    stop(f"no job was submitted: {lines[-1] if lines else 'sbatch does not say why'}", 3)
            time.sleep(0.2 if self.local else 1)
            self.watch()
            if not noted and time.monotonic() - begun > 30:
                noted = True
                if self.running and all(state == "PENDING" for _, _, state in self.running.values()):
                    print(f"note: all jobs wait for Slurm: {self.reason} (squeue --me shows them; Ctrl-C cancels them)", file=sys.stderr)
            if live:
                print(f"\r\033[Kjobs: {total - len(self.waiting) - len(self.running)} of {total} ended", end="", file=sys.stderr, flush=True)
        if live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        for job, *_ in self.running.values():
            job.cancel()
        until = time.monotonic() + 15  # what they have by then is gathered
        while self.running and time.monotonic() < until:
            time.sleep(0.2)
            self.watch()
        missing = {"job": "", "state": "CANCELLED", "code": None, "said": ""}
        with tidemark_files.create(self.folder / "ended.json") as file:
            json.dump([one or missing for one in self.results], file)
        return 130 if self.interrupted else 0


def main():
    jobs = Jobs(sys.argv[1])

    def interrupt(*_):
        jobs.interrupted = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    return jobs.run()


if __name__ == "__main__":
    sys.exit(main())
