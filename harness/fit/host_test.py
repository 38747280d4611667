"""Ends of runs that say nothing about the GPU: a limit of the host, a signal, an interruption; and what the cache has that is no answer."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from testing.said import ENVIRONMENT, FOLDER, TIDEMARK, TRAIN, drawn, fit, script

# Batch 3 waits for its end by a signal.
WAITS = TRAIN.replace("model =", "import pathlib, time\nif batch == 3 and not pathlib.Path('mercy').exists():\n    pathlib.Path('waits').write_text(str(os.getpid()))\n    time.sleep(600)\nmodel =", 1)


def test_a_limit_of_the_host():
    """What the host refuses is an error of the host with exit code 3, in fit and in exec, and nothing of it is kept."""
    script("little.py", "import sys, torch\nx = torch.empty(72 << 20, dtype=torch.uint8, device='cuda')\nprint(x.numel())\n")
    words = ("--vary", "batch=1", "--jobs", "1", "--gpu", "h100-80g", "--no-server", "--", "python3", "little.py", "{batch}")
    limited = subprocess.run(["prlimit", "--as=3000000000", TIDEMARK, "fit", *words], cwd=FOLDER, env=ENVIRONMENT, capture_output=True, text=True, timeout=400, check=False)
    said = limited.stdout + limited.stderr
    assert limited.returncode == 3 and "does not fit" not in said, said
    assert re.search(r"^error: .*the host (refuses|has)", limited.stderr, re.M), said
    result = fit(*words).ends(0)
    result.check(", 0 from the cache" in result.out, "nothing was kept")
    limited = subprocess.run(["prlimit", "--as=3000000000", TIDEMARK, "exec", "--", "python3", "little.py", "1"], cwd=FOLDER, env=ENVIRONMENT, capture_output=True, text=True, timeout=400, check=False)
    assert limited.returncode == 3 and "the host refuses" in limited.stderr and "out of memory" not in limited.stderr, limited


# night: waits for a run that is killed; fit_host_a_limit_of_the_host holds by day that the host's ends are not kept
def test_a_run_that_is_killed():
    """A run that a signal ended is not known, is named, and is not kept; the search goes on around it, and the same command tries it again."""
    script("waits.py", WAITS)
    words = ["--vary", "batch=1..4", "--jobs", "1", "--gpu", "h100-80g", "--no-server", "--", "python3", "waits.py", "{batch}"]
    out = FOLDER / "killed.json"
    with subprocess.Popen([TIDEMARK, "fit", "--out", out, *words], cwd=FOLDER, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        until = time.monotonic() + 300
        while not (FOLDER / "waits").exists() or not (FOLDER / "waits").read_text():
            if running.poll() is not None:  # the search had no need of batch 3
                break
            assert time.monotonic() < until
            time.sleep(0.1)
        else:
            os.kill(int((FOLDER / "waits").read_text()), signal.SIGKILL)
        said, _ = running.communicate(timeout=300)
    assert "Refused by the program" not in said, said
    if (FOLDER / "waits").exists():
        assert running.returncode == 0 and re.search(r"Not known: batch 3: .*ended by signal 9", said), said
    (FOLDER / "mercy").touch()
    result = fit("--vary", "batch=3", "--jobs", "1", "--gpu", "h100-80g", "--no-server", "--", "python3", "waits.py", "{batch}").ends(0, "batch 3 on h100-80g")
    result.check("1 run here" in result.out or "2 runs here" in result.out, "it was not kept")


# holds: harness/fit/README.md, What is kept
def test_an_answer_to_another_question():
    """A file of the cache with another capacity, GPU or value, or that is none, is not taken: the value runs again."""
    script("cached.py", TRAIN)
    cache = FOLDER / "asked"
    words = ("--cache", cache, "--vary", "batch=1,2", "--jobs", "1", "--gpu", "t4-16g", "--", "python3", "cached.py", "{batch}")
    first = fit(*words).ends(0)
    files = sorted(cache.glob("*.json"))
    assert files
    for change in drawn((("capacity_bytes", 85899345920), ("gpu", "a100-40g"), ("values", {"batch": "9"}), ("room", None)), 4):
        for file in files:
            kept = json.loads(file.read_text())
            kept[change[0]] = not kept["room"] if change[0] == "room" else change[1]
            file.write_text(json.dumps(kept))
        again = fit(*words).ends(0)
        again.check(", 0 from the cache" in again.out, f"another {change[0]} is no answer")
        again.check(again.record["answers"] == first.record["answers"] or all("seconds" in str(one) for one in again.record["answers"]), "the same answers")
    last = fit(*words).ends(0)
    last.check("0 runs here" in last.out, "what was written again is taken")


def test_interrupted_at_its_start():
    """A fit that is interrupted while torch is imported leaves no folder."""
    script("early.py", TRAIN)
    place = FOLDER / "early"
    place.mkdir()
    for number, wait in ((signal.SIGINT, 0.3), (signal.SIGTERM, 1.0)):
        with subprocess.Popen([TIDEMARK, "fit", "--fresh", "--vary", "batch=1..4", "--", "python3", "early.py", "{batch}"], cwd=FOLDER, env={**ENVIRONMENT, "TMPDIR": str(place)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            until = time.monotonic() + 60
            while not list(place.glob("tidemark-fit-*")) and time.monotonic() < until:
                time.sleep(0.02)
            time.sleep(wait)
            running.send_signal(number)
            said = running.communicate(timeout=120)
        assert running.returncode == 128 + number, said
        assert not list(Path(place).glob("tidemark-fit-*")), said


def test_interrupted_before_it_begins():
    """A fit that is ended while its Python is asked for its libraries leaves no folder, and no word of that Python's."""
    script("early.py", TRAIN)
    place = FOLDER / "before"
    place.mkdir()
    for wait in (0.04, 0.07, 0.1, 0.13):
        with subprocess.Popen([TIDEMARK, "fit", "--fresh", "--vary", "batch=1..4", "--", "python3", "early.py", "{batch}"], cwd=FOLDER, env={**ENVIRONMENT, "TMPDIR": str(place)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            time.sleep(wait)
            running.send_signal(signal.SIGTERM)
            said = running.communicate(timeout=120)
        assert running.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM), said
        assert "Exception" not in said[1] and not list(Path(place).glob("tidemark-fit-*")), (wait, said)
