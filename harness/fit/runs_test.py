"""The runs of `tidemark fit`: their limit, what is kept of them, and copies of a process that has imported torch."""
import json
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from testing.said import CHANGED, ENVIRONMENT, FOLDER, TIDEMARK, TRAIN, fit, script

import exec_server  # of harness/exec/testing, which testing.said has put on the path


# night: waits for the limit of a run that hangs
def test_hang():
    """A run that does not end is ended at its limit, and its answer is unknown; a value that was decided before stays so."""
    script("hangs.py", "import sys, time, torch\nif int(sys.argv[1]) > 2: time.sleep(3600)\n" + TRAIN)
    begun = time.monotonic()
    result = fit("--limit", "12", "--vary", "batch=2..8", "--gpu", "t4-16g", "--", "python3", "hangs.py", "{batch}").ends(
        0, "a run had not ended after 12 s and had made no step, and was ended (--limit)")
    result.check(result.record["answers"][0]["largest"] == "2", "what had ended stays")
    result = fit("--limit", "5", "--vary", "batch=8", "--gpu", "t4-16g", "--", "python3", "hangs.py", "{batch}").ends(1, "batch 8 on t4-16g: unknown: a run had not ended after 5 s")
    result.check(time.monotonic() - begun < 120, "no hang")
    leaks = TRAIN.replace('range(int(os.environ.get("STEPS", "3")))', "iter(int, 1)").replace("optimizer.step()", "kept.append(torch.empty(128, device='cuda'))\n    optimizer.step()")
    script("endless.py", "kept = []\n" + leaks)
    fit("--limit", "12", "--vary", "batch=1", "--gpu", "t4-16g", "--", "python3", "endless.py", "{batch}").ends(1, "unknown: a run had not ended after 12 s, and was ended (--limit)")


def settings(**values):
    return {"TIDEMARK_EXEC_SETTINGS": json.dumps(values)}


class TorchOnce:
    """A server as fit starts it; `exec` runs a program below it."""

    def __enter__(self):
        self.place = FOLDER / "torch_once"
        self.place.mkdir()
        python = subprocess.check_output(["sh", "-c", "command -v python3"], text=True).strip()
        self.process = exec_server.serve(self.place, TIDEMARK, python, ENVIRONMENT)
        for _ in range(1200):
            if (self.place / "server").exists():
                return self
            time.sleep(0.1)
        pytest.fail("the server has not started\n" + (self.place / "log").read_text())

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def exec(self, report, *words, served, **more):
        steady = Path(f"{report}-steady")
        steady.mkdir()
        environment = {**ENVIRONMENT, **settings(steady=str(steady), server=str(self.place / "server") if served else ""), **more}
        done = subprocess.run([TIDEMARK, "exec", "--gpu", "t4-16g", "--report", report, *words], cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
        return done, bool(list(steady.glob("*.copy")))


ABOUT = """
import os, sys
print(__name__, __file__, sys.argv, sys.path[0], os.getcwd(), sys.flags.dont_write_bytecode, __spec__ and __spec__.name, sys.modules["__main__"].__dict__ is globals(), sys.stdin.read())
import atexit, torch
atexit.register(print, "at exit")
x = torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda")
sys.exit(int(sys.argv[2]))
"""


# night: nine programs, each as a copy and by itself; python_outcomes holds the ends of copies by day
def test_server():
    """A copy of a process that had imported torch does what a process of its own does: events, peaks, output, exit code, signals; where it cannot, it is none."""
    script("train.py", TRAIN)
    script("changed.py", CHANGED)
    script("about.py", ABOUT)
    script("module.py", ABOUT)
    script("killed.py", "import os, signal, torch\nx = torch.empty(1 << 20, device='cuda')\nos.kill(os.getpid(), signal.SIGKILL)\n")
    script("raises.py", "import torch\nx = torch.empty(1 << 20, device='cuda')\nraise ValueError('no')\n")
    script("full.py", "import torch\nx = torch.empty(17 << 30, dtype=torch.uint8, device='cuda')\n")
    gpt = Path(__file__).resolve().parent / "testing" / "gpt.py"
    programs = [("train.py", "2"), ("changed.py", "half"), (gpt, "--batch", "1", "--steps", "2", "--recompute", "full"),
                ("about.py", "3", "7"), ("-m", "module", "3", "0"), ("-u", "about.py", "1", "0"), ("killed.py",), ("raises.py",), ("full.py",)]
    with TorchOnce() as once:
        def both(program):
            name = "-".join(Path(str(word)).stem.strip("-") for word in program)
            return [once.exec(FOLDER / f"{name}-{served}", "--", "python3", *program, served=served) for served in (False, True)]

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(both, programs))
        for program, ((alone, is_copy), (copied, was_copy)) in zip(programs, outcomes):
            what = f"{program}:\n{alone.stdout}\n{alone.stderr}\n--\n{copied.stdout}\n{copied.stderr}"
            if is_copy or not was_copy:
                pytest.fail(f"no copy of {what}")
            if alone.returncode != copied.returncode or alone.stdout != copied.stdout:
                pytest.fail(f"exit code or output of {what}")
            raised = [[line for line in one.stderr.splitlines() if line.startswith(("Traceback", "  File", "ValueError", "torch."))] for one in (alone, copied)]
            if raised[0] != raised[1]:
                pytest.fail(f"traceback of {what}")
            name = "-".join(Path(str(word)).stem.strip("-") for word in program)
            records = [json.loads((FOLDER / f"{name}-{served}" / "report.json").read_text())["trials"][0]["program"] for served in (False, True)]
            peaks = [[(one["rank"], one["devices"]) for one in record["ranks"]] for record in records]
            if peaks[0] != peaks[1] or not peaks[0][0][1]:
                pytest.fail(f"peaks of {what}\n{peaks}")
            pickles = [next(iter((FOLDER / f"{name}-{served}").glob("*.record"))) for served in (False, True)]
            compared = subprocess.run([TIDEMARK, "compare", "--events", *pickles], capture_output=True, text=True, check=False)
            if compared.returncode != 0:
                pytest.fail(f"events of {what}\n{compared.stdout}{compared.stderr}")
        _, was_copy = once.exec(FOLDER / "own", "--", "python3", "train.py", "1", served=True, TORCH_LOGS="")
        _, with_words = once.exec(FOLDER / "words", "--", "python3", "-X", "utf8", "train.py", "1", served=True)
        if was_copy or with_words:
            pytest.fail("a variable of torch, or a word of Python's, must have a process of its own")
        ranks, was_copy = once.exec(FOLDER / "ranks", "--as-rank", "0,3", "--of", "4", "--", "python3", "train.py", "1", served=True)
        rows = json.loads((FOLDER / "ranks" / "report.json").read_text())["trials"][0]["program"]["ranks"]
        if ranks.returncode or not was_copy or [one["rank"] for one in rows] != [0, 3]:
            pytest.fail(f"ranks without partners\n{ranks.stderr}")
        waiting = subprocess.Popen([TIDEMARK, "exec", "--", "python3", script("waits.py", "import os, time, torch\nopen('waits.pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n")],
                                   cwd=FOLDER, env={**ENVIRONMENT, **settings(server=str(once.place / "server"))}, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if (FOLDER / "waits.pid").exists() and (FOLDER / "waits.pid").read_text():
                break
            time.sleep(0.05)
        waiting.terminate()
        waiting.wait(30)
        pid = (FOLDER / "waits.pid").read_text()
        for _ in range(200):
            if not Path("/proc", pid).exists():
                break
            time.sleep(0.1)
        else:
            pytest.fail("the program goes on after its command has ended")


# night: searches again after each change; fit_host_an_answer_to_another_question holds by day what is taken from the cache
def test_kept():
    """Results are kept by command and inputs; an interrupted search goes on."""
    train = script("train.py", TRAIN)
    command = ("--vary", "batch=1,2,3", "--gpu", "t4-16g", "--jobs", "1", "--", "python3", train, "{batch}")
    environment = {**ENVIRONMENT}
    process = subprocess.Popen([TIDEMARK, "fit", *command], cwd=FOLDER, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cache = FOLDER / "cache" / "tidemark" / "fit"
    for _ in range(2400):
        if list((FOLDER / "tmp").glob("tidemark-fit-*/notes*/0.ended")):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    first = re.search(r"(\d+) runs? here", out)
    if process.returncode != 130 or "Interrupted" not in out or not first or int(first[1]) < 1:
        pytest.fail(f"interrupted\n{process.returncode}\n{out}\n{err}")
    if not list(cache.glob("*.json")):
        pytest.fail("what had run is kept")
    killed = FOLDER / "killed"  # the first run is kept as soon as it has ended
    process = subprocess.Popen([TIDEMARK, "fit", "--cache", killed, *command], cwd=FOLDER, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(2400):
        if list(killed.glob("*.json")):
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    result = fit("--cache", killed, *command).ends(0)
    result.check(1 <= int(re.search(r"(\d+) from the cache", result.out)[1]) < 4, "goes on after a kill")
    result = fit(*command).ends(0)
    result.check(int(re.search(r"(\d+) from the cache", result.out)[1]) >= 1, "goes on")
    fit(*command).ends(0, "0 runs here, 4 from the cache")
    script("train.py", TRAIN + "\n# changed\n")
    fit(*command).ends(0, "4 runs here, 0 from the cache")
