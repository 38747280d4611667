"""What is written validates against the schema that is printed, by another implementation than ours: runs of the five scenarios and a program's report, as
they lie and with every value in its place. The other tests hold each report that they write (reports/valid.py), those of python/ the reports of pytest."""
import copy
import json
import os
import random
import sys
from pathlib import Path

import pytest
from command import BINARY, CASES, passes, refuses, run
from valid import expanded, objections, validator

SITE = Path(os.environ["TIDEMARK_DEPS"]) / "python"
PROGRAM = "import torch; x = torch.ones(1 << 20, device='cuda'); (x * 2).sum()"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    seen = run("run", *CASES, "ddp_bucket_view/bucket_view/smoke", "--mode", "math", "--steps", 2, "--ranks", 2, "--schedule", "lagging", "--out", "scenarios", cwd=folder)
    assert seen.returncode == 0, seen.stdout + seen.stderr
    seen = run("exec", "--report", "program", "--", sys.executable, "-c", PROGRAM, cwd=folder, PYTHONPATH=str(SITE))
    assert seen.returncode == 0, seen.stdout + seen.stderr
    return folder


def names(document):
    return {trial["scenario"] for trial in document["trials"]}


def test_reports_validate(written):
    for folder, holds in (("scenarios", {"ddp_bucket_view", "frozen_reshard", "fsdp_prefetch", "tp_buffer_reuse", "zero_bubble_detach"}), ("program", {"program"})):
        whole = expanded(BINARY, written / folder)
        assert names(whole) == holds
        for document in (json.loads((written / folder / "report.json").read_bytes()), whole):
            assert objections(BINARY, document) == []


def places(value, at=()):
    """Of all members of objects, and of the first two items of lists."""
    pairs = value.items() if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*at, key)
        yield from places(inner, (*at, key))


def test_a_changed_field_does_not(written):
    """Twelve fields of each report, drawn by the day's seed: another type in the place of each."""
    drawn = random.Random(int(os.environ.get("TIDEMARK_TEST_SEED", 60)))
    for folder in ("scenarios", "program"):
        whole = expanded(BINARY, written / folder)
        for trial in whole["trials"]:  # two of each are enough
            trial["variants"] = trial["variants"][:2]
            trial["verdicts"] = trial["verdicts"][:2]
        for place in drawn.sample(sorted(places(whole), key=str), 12):
            changed = copy.deepcopy(whole)
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = [{}] if isinstance(inner[place[-1]], dict) else {"x": []}
            assert not validator(BINARY).is_valid(changed), f"{folder}: {place}"


def test_another_version_is_a_line(written):
    document = json.loads((written / "scenarios/report.json").read_bytes())
    for version in ("4.0", "0.9", "three"):
        Path("other").mkdir(exist_ok=True)
        Path("other/report.json").write_text(json.dumps({**document, "schema_version": version}))
        for words in ("report other", f"compare other {written}/scenarios"):
            refuses(2, f"schema version {version} where this tidemark reads", words)
    assert objections(BINARY, {**document, "schema_version": "4.0"})
    assert passes(f"report {written}/scenarios --json").returncode == 0
