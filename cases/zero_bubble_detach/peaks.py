"""Peaks of a run of tidemark, for pytorch_test.py and ablation.py."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def peaks(tidemark, statistic, variants, ranks, parameters):
    """Bytes by variant, of every rank, highest of all phases of the last of two steps."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tidemark, "run", *(f"zero_bubble_detach/{name}" for name in variants), "--size", "seed", "--ranks", str(ranks),
                   "--schedule", "instant", "--steps", "2", "--races", "off", "--details", "none", "--out", folder + "/run"]
        for name, value in parameters.items():
            command += ["--set", f"{name}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        if done.returncode != 0:
            sys.exit(f"error: {' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
        (trial,) = json.loads(Path(folder, "run", "report.json").read_text(encoding="utf-8"))["trials"]
    return {variant["name"]: [max(phase[statistic]["peak"] for phase in rank["phases"]) for rank in variant["ranks"]]
            for variant in trial["variants"]}
