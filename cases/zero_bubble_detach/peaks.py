"""Peaks of a run of tidemark, for pytorch_test.py and ablation.py."""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "reports"))
from reading import read  # noqa: E402


def trial(tidemark, variants, ranks, parameters, steps):
    """One trial of size seed, as report.json has it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tidemark, "run", *(f"zero_bubble_detach/{name}" for name in variants), "--size", "seed", "--ranks", str(ranks),
                   "--schedule", "instant", "--steps", str(steps), "--races", "off", "--details", "none", "--out", folder + "/run"]
        for name, value in parameters.items():
            command += ["--set", f"{name}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        if done.returncode != 0:
            sys.exit(f"error: {' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
        (found,) = read(Path(folder, "run"))["trials"]
    return found


def peaks(tidemark, statistic, variants, ranks, parameters, steps=2):
    """Bytes by variant, of every rank, highest of all phases of the last step."""
    return {variant["name"]: [max(phase[statistic]["peak"] for phase in rank["phases"]) for rank in variant["ranks"]]
            for variant in trial(tidemark, variants, ranks, parameters, steps)["variants"]}


def leaks(tidemark, ranks, parameters):
    """Requested bytes that each of three steps of as_released adds, by rank; held against the closed form by the run."""
    verdicts = trial(tidemark, ["as_released"], ranks, parameters, 3)["verdicts"]
    found = {rank: v["measured"] for v in verdicts if v["variant"] == "as_released" and v["name"] == "leak/requested/peak" for rank in v["ranks"]}
    return [found[rank] for rank in range(ranks)]
