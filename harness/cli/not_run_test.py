#!/usr/bin/env python3
"""not_run_test.py TIDEMARK: a rank is killed in the middle of a run. What had ended is kept, and whatever did not run is said in the
terminal's last lines, report.json, summary.md, junit.xml and the page's data, with the rank and its signal. Then a capacity that
belongs to the trial, whatever runs beside it."""
import os
import re
import xml.etree.ElementTree as xml

from checks import check, in_scratch
from command import read
from command import run as run_command

RANKS, KILLED = 3, 2
PLAN = ["fsdp_prefetch/stash", "fsdp_prefetch/per_collective", "frozen_reshard/multi_grad_hook"]
WORDS = ["--size", "smoke", "--mode", "math", "--schedule", "all", "--steps", "2", "--ranks", str(RANKS), "--timeout", "60"]


def run(folder, *words, **more):
    return run_command("run", *words, cwd=folder, TIDEMARK_HISTORY="off", **more)


def report_of(folder):
    return read(folder, details=True)


def check_killed(folder):
    good = run(folder, *PLAN, *WORDS, "--out", "good")
    check(good.returncode == 0, "the same run without a fault passes", good.stderr)
    whole = report_of(folder / "good")
    # Calls of one variant, warm-up and communicators with it: the fault is due in the second variant of the second trial.
    calls = [sum(v["ranks"][KILLED]["counters"]["collectives"].values()) for v in whole["trials"][0]["variants"]]
    warm, second = sum(2 * calls + 2 for calls in calls), calls[0] + 1
    nth = warm + second + calls[1] // 2
    cut = run(folder, *PLAN, *WORDS, "--out", "cut", TIDEMARK_FAULT=f"rank={KILLED} nth={nth} do=kill")
    said = f"rank {KILLED} was ended by signal 9 (Killed) in fsdp_prefetch/stash"
    check(cut.returncode == 3, "exit code 3", cut.returncode)
    check(cut.stdout.endswith(f"\nIncomplete: 1 of 6 trials finished; {said}\nreport: cut/report.html\n"), "the last lines of the terminal", cut.stdout[-400:])
    report = report_of(folder / "cut")
    check(report["run"]["ended"] == said, "report.json says how it ended", report["run"].get("ended"))
    check(report["summary"]["trials"] == {"planned": 6, "finished": 1, "skipped": 0, "cut_short": 1, "not_run": 4}, "trials by how they went",
          report["summary"])
    names = [[t[key] for key in ("scenario", "size", "schedule")] for t in report["trials"]]
    check(names == [[t[key] for key in ("scenario", "size", "schedule")] for t in whole["trials"]], "the plan is in report.json", names)
    check(report["trials"][0] == whole["trials"][0], "a finished trial is kept as it was")
    kept, stopped, never = report["trials"][1]["variants"]
    ended = {**whole["trials"][1]["variants"][0], "gradients": []}  # those are compared when all variants have run
    check(kept == ended, "a variant that had ended is kept with its record", [key for key in ended if kept.get(key) != ended[key]])
    check(stopped["name"] == "stash" and said.split(" in ")[0] in (stopped["error"] or "") and f"rank {KILLED} was in fsdp_prefetch/smoke" in stopped["error"],
          "the error stands at the variant that ran", stopped["error"])
    check(never["name"] == "per_collective" and never["not_run"] == f"the run ended before it: {said}", "the next variant did not run", never)
    lost = report["trials"][2:]
    check(all(t["not_run"] == f"the run ended before it: {said}" and all("not_run" in v for v in t["variants"]) for t in lost), "trials that did not run")
    check((folder / "cut" / "summary.md").read_text().startswith("# tidemark: Incomplete: 1 of 6 trials finished; rank 2 was ended by signal 9"), "summary.md")
    errors = [(case.get("classname"), case.get("name")) for case in xml.parse(folder / "cut" / "junit.xml").iter("testcase") if case.find("error") is not None]
    check(len(errors) == 1 + 1 + 4, "junit.xml: the variant that ran, the one that did not, and four trials", errors)
    check(os.readlink(folder / "latest") == "cut" and os.readlink(folder / "latest-good") == "good", "latest and latest-good")
    again = run_command("report", "cut", cwd=folder)
    check(again.returncode == 0, "the report can be rendered again", again.stderr)


def check_exit(folder):
    """A rank that leaves without a word, before anything has run."""
    gone = run(folder, PLAN[0], *WORDS, "--out", "gone", TIDEMARK_FAULT=f"rank={KILLED} do=exit")
    check(gone.returncode == 3 and f"rank {KILLED} ended with exit code 7" in gone.stdout.splitlines()[-2], "exit code of a rank", gone.stdout[-300:])
    check(re.search(r"\nIncomplete: 0 of 3 trials finished; ", gone.stdout), "no trial finished", gone.stdout[-300:])


def check_capacity(folder):
    """The same trial on the same GPUs, alone and beside one that needs more."""
    words = ["--size", "seed", "--mode", "shapes", "--schedule", "instant", "--steps", "2", "--ranks", "2", "--set", "layers=14", "--details", "none"]
    alone = run(folder, "tp_buffer_reuse/recompute", *words, "--out", "alone")
    check(alone.returncode == 0, "alone", alone.stdout[-600:] + alone.stderr)
    beside = run(folder, "tp_buffer_reuse/recompute", "fsdp_prefetch/stash", *words, "--out", "beside")
    check(beside.returncode == 0, "beside another", beside.stdout[-600:] + beside.stderr)
    one, other = report_of(folder / "alone"), report_of(folder / "beside")
    trial = next(t for t in other["trials"] if t["scenario"] == "tp_buffer_reuse")
    check(one["trials"][0] == trial, "the trial is the same, byte for byte")
    check(trial["needs_bytes"] > 80 << 30 and trial["capacity_bytes"] >= 1 << 40, "it needs more than the profile has", trial["needs_bytes"])
    small = next(t for t in other["trials"] if t["scenario"] == "fsdp_prefetch")
    check(small["capacity_bytes"] == one["run"]["device"]["profile_bytes"], "the other one runs on the profile's", small["capacity_bytes"])
    check("note: tp_buffer_reuse/seed needs " in alone.stderr and "does not fit h100-80g" in alone.stderr, "the note", alone.stderr)
    for variant in trial["variants"]:
        reserved = max(phase["reserved"]["peak"] for rank in variant["ranks"] for step in rank["steps"] for phase in step["phases"])
        fits = {"profile": "h100-80g", "capacity_bytes": one["run"]["device"]["profile_bytes"], "reserved_bytes": reserved,
                "fits": reserved <= one["run"]["device"]["profile_bytes"]}
        check(variant["fits"] == fits, f"whether {variant['name']} fits", variant["fits"])


def test(folder):
    check_killed(folder)
    check_exit(folder)
    check_capacity(folder)


if __name__ == "__main__":
    in_scratch(test, "what did not run is said")
