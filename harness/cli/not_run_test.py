"""A rank is killed in the middle of a run. What had ended is kept, and whatever did not run is said in the
terminal's last lines, report.json, summary.md, junit.xml and the page's data, with the rank and its signal. Then a capacity that
belongs to the trial, whatever runs beside it."""
import os
import re
import xml.etree.ElementTree as xml
from pathlib import Path

from command import read
from command import run as run_command

RANKS, KILLED = 3, 2
PLAN = ["fsdp_prefetch/stash", "fsdp_prefetch/per_collective", "frozen_reshard/multi_grad_hook"]
WORDS = ["--size", "smoke", "--mode", "math", "--schedule", "all", "--steps", "2", "--ranks", str(RANKS), "--timeout", "60"]


def run(*words, **more):
    return run_command("run", *words, TIDEMARK_HISTORY="off", **more)


def report_of(folder):
    return read(folder, details=True)


# holds: harness/README.md, A run that does not reach its end
def test_killed():
    good = run(*PLAN, *WORDS, "--out", "good")
    assert good.returncode == 0, f"the same run without a fault passes: {good.stderr}"
    whole = report_of("good")
    # Calls of one variant, warm-up and communicators with it: the fault is due in the second variant of the second trial.
    calls = [sum(v["ranks"][KILLED]["counters"]["collectives"].values()) for v in whole["trials"][0]["variants"]]
    warm, second = sum(2 * calls + 2 for calls in calls), calls[0] + 1
    nth = warm + second + calls[1] // 2
    cut = run(*PLAN, *WORDS, "--out", "cut", TIDEMARK_FAULT=f"rank={KILLED} nth={nth} do=kill")
    cause = f"rank {KILLED} was ended by signal 9 (Killed) in fsdp_prefetch/stash"
    assert cut.returncode == 3, f"exit code 3: {cut.stderr}"
    assert cut.stdout.endswith(f"\nIncomplete: 1 of 6 trials finished; {cause}\nreport: cut/report.html\n"), cut.stdout[-400:]
    report = report_of("cut")
    assert report["run"]["ended"] == cause, "report.json says how it ended"
    assert report["summary"]["trials"] == {"planned": 6, "finished": 1, "skipped": 0, "cut_short": 1, "not_run": 4}, "trials by how they went"
    names = [[t[key] for key in ("scenario", "size", "schedule")] for t in report["trials"]]
    assert names == [[t[key] for key in ("scenario", "size", "schedule")] for t in whole["trials"]], f"the plan is in report.json: {names}"
    assert report["trials"][0] == whole["trials"][0], "a finished trial is kept as it was"
    kept, stopped, never = report["trials"][1]["variants"]
    ended = {**whole["trials"][1]["variants"][0], "gradients": []}  # those are compared when all variants have run
    assert kept == ended, f"a variant that had ended is kept with its record: {[key for key in ended if kept.get(key) != ended[key]]}"
    assert stopped["name"] == "stash" and cause.split(" in ")[0] in stopped["error"], stopped
    assert f"rank {KILLED} was in fsdp_prefetch/smoke" in stopped["error"], stopped["error"]
    assert never["name"] == "per_collective" and never["not_run"] == f"the run ended before it: {cause}", f"the next variant did not run: {never}"
    lost = report["trials"][2:]
    assert all(t["not_run"] == f"the run ended before it: {cause}" and all("not_run" in v for v in t["variants"]) for t in lost), "trials that did not run"
    assert Path("cut/summary.md").read_text().startswith("# tidemark: Incomplete: 1 of 6 trials finished; rank 2 was ended by signal 9"), "summary.md"
    errors = [(case.get("classname"), case.get("name")) for case in xml.parse("cut/junit.xml").iter("testcase") if case.find("error") is not None]
    assert len(errors) == 1 + 1 + 4, f"junit.xml: the variant that ran, the one that did not, and four trials: {errors}"
    assert os.readlink("latest") == "cut" and os.readlink("latest-good") == "good", "latest and latest-good"
    again = run_command("report", "cut")
    assert again.returncode == 0, f"the report can be rendered again: {again.stderr}"


# night: one more run that is ended; not_run's test_killed and fault_test end some by day
def test_exit():
    """A rank that leaves without a word, before anything has run."""
    gone = run(PLAN[0], *WORDS, "--out", "gone", TIDEMARK_FAULT=f"rank={KILLED} do=exit")
    assert gone.returncode == 3 and f"rank {KILLED} ended with exit code 7" in gone.stdout.splitlines()[-2], f"exit code of a rank: {gone.stdout[-300:]}"
    assert re.search(r"\nIncomplete: 0 of 3 trials finished; ", gone.stdout), f"no trial finished: {gone.stdout[-300:]}"


# night: a trial of many GiB twice; test_killed has a run that does not reach its end by day
def test_capacity():
    """The same trial on the same GPUs, alone and beside one that needs more."""
    words = ["--size", "seed", "--mode", "shapes", "--schedule", "instant", "--steps", "2", "--ranks", "2", "--set", "layers=14", "--details", "none"]
    alone = run("tp_buffer_reuse/recompute", *words, "--out", "alone")
    assert alone.returncode == 0, f"alone: {alone.stdout[-600:] + alone.stderr}"
    beside = run("tp_buffer_reuse/recompute", "fsdp_prefetch/stash", *words, "--out", "beside")
    assert beside.returncode == 0, f"beside another: {beside.stdout[-600:] + beside.stderr}"
    one, other = report_of("alone"), report_of("beside")
    trial = next(t for t in other["trials"] if t["scenario"] == "tp_buffer_reuse")
    assert one["trials"][0] == trial, "the trial is the same, byte for byte"
    assert trial["needs_bytes"] > 80 << 30 and trial["capacity_bytes"] >= 1 << 40, "it needs more than the profile has"
    small = next(t for t in other["trials"] if t["scenario"] == "fsdp_prefetch")
    assert small["capacity_bytes"] == one["run"]["device"]["profile_bytes"], "the other one runs on the profile's"
    assert "note: tp_buffer_reuse/seed needs " in alone.stderr and "does not fit h100-80g" in alone.stderr, f"the note: {alone.stderr}"
    for variant in trial["variants"]:
        reserved = max(phase["reserved"]["peak"] for rank in variant["ranks"] for step in rank["steps"] for phase in step["phases"])
        fits = {"profile": "h100-80g", "capacity_bytes": one["run"]["device"]["profile_bytes"], "reserved_bytes": reserved,
                "fits": reserved <= one["run"]["device"]["profile_bytes"]}
        assert variant["fits"] == fits, variant["name"]
