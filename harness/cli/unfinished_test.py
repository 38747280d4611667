"""Runs of the command in which not everything runs or passes: skipped trials, faults, interruptions, and what is said of them."""
import os
import signal
import subprocess
import time
from pathlib import Path

from command import BINARY, drawn, environment, passes, processes_of, read, refuses, tidemark

EIGHT_HEADS_ON_THREE_RANKS = ("run 'fsdp_prefetch/stash/smoke' 'tp_buffer_reuse/recompute/smoke' --mode shapes --schedule instant --ranks 3 "
                              "--steps 2 ")  # which do not divide


def test_a_fault_that_did_not_happen_is_a_failure():
    """What one rank's fault does to the others is fault_test.py's and oom_test.py's; here its plan."""
    line = "run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant --ranks 2 --out "
    fault = "rank=1 call=all_gather nth=300000 do=kill"
    done = tidemark(line + "a", TIDEMARK_FAULT=fault)
    assert done.returncode == 1, done.stderr
    assert f"FAIL the fault '{fault}' did not happen: rank 1 made " in done.stdout
    assert done.stdout.endswith("\n1 planned fault did not happen\nreport: a/report.html\n"), done.stdout
    assert not Path("history.sqlite").exists(), "a run under faults is in the history"
    for fault, says in (("rank=2 do=kill", "there is no rank 2: 2 ranks run"), ("call=all_gathr do=kill", "there is no call 'all_gathr'"),
                        ("rank=1 do=nosuch", "do must say what happens")):
        refuses(2, says, line + "b", TIDEMARK_FAULT=fault)


def test_a_skipped_trial_is_a_failure_where_all_are_required():
    output = passes(EIGHT_HEADS_ON_THREE_RANKS + "--out a").stdout
    assert "\nskipped: tp_buffer_reuse/smoke (1 trial): heads=8 does not" in output
    assert "1 of 2 trials finished, 1 skipped; " in output
    assert not os.path.lexists("latest-good"), "not all of it ran"
    required = tidemark(EIGHT_HEADS_ON_THREE_RANKS + "--out b --require-all")
    assert required.returncode == 1
    assert required.stdout.endswith("\n1 of 2 trials skipped, and all are required\nreport: b/report.html\n"), required.stdout


def test_a_dry_run_says_what_would_be_skipped_and_how_long_it_takes():
    before = passes(EIGHT_HEADS_ON_THREE_RANKS + "--dry-run").stdout
    assert "SKIPPED: heads=8 does not divide among 3 ranks" in before
    assert "1 of 2 trials would run, 1 would be skipped. How long is unknown" in before
    passes(EIGHT_HEADS_ON_THREE_RANKS)
    latest = Path("tidemark-out", "latest")
    assert os.readlink(latest) == read(latest)["run"]["id"]
    assert "would be skipped. About " in tidemark(EIGHT_HEADS_ON_THREE_RANKS + "--dry-run").stdout


def test_the_scale_size_fits_any_power_of_two_up_to_64():
    """Sizes follow the ranks."""
    for ranks in drawn((1, 2, 4, 8, 16, 32, 64), 7):
        plan = passes(f"run --size scale --as-rank 0 --dry-run --ranks {ranks}").stdout
        assert "\n15 of 15 trials would run, 0 would be skipped." in plan, ranks


def test_a_capacity_is_taken_in_units():
    passes("run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant --ranks 1 --capacity 6GiB --out a", TIDEMARK_CAPACITY="5GiB")
    report = read("a")
    assert report["trials"][0]["capacity_bytes"] == 6 << 30
    assert report["run"]["env"]["TIDEMARK_CAPACITY"] == str(6 << 30)


def hanging(out):
    """A run that has come to a variant, in which the second rank hangs."""
    with open("out", "w") as printed, open("err", "w") as errors:
        process = subprocess.Popen([BINARY, *f"run fsdp_prefetch/stash --size smoke --mode math --ranks 2 --out {out}".split()],
                                   env=environment(TIDEMARK_FAULT="rank=1 nth=30 do=hang"), stdout=printed, stderr=errors)
    for _ in range(600):
        if "[1/" in Path("err").read_text():
            break
        time.sleep(0.1)
    return process


def test_a_run_outlives_the_reader_of_its_output():
    """As `tidemark run | head -1` does: the report is whole, and the exit code says that the output is not."""
    with subprocess.Popen([BINARY, *"run fsdp_prefetch/stash --size smoke --mode shapes --ranks 2 --out a".split()], env=environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.readline()
        process.stderr.close()
        assert process.wait() == 3
    report = read("a")
    verdicts = [verdict["status"] for trial in report["trials"] for verdict in trial["verdicts"]]
    assert {"pass"} <= set(verdicts) <= {"pass", "skip"} and not report["run"].get("ended"), report["run"]
    assert not Path("a", "unfinished").exists()
    Path("b", "unfinished").mkdir(parents=True)
    refuses(2, "has the records of a run that has not written its report", "run fsdp_prefetch/stash --size smoke --ranks 2 --force --out b")


def test_an_interrupted_run_reports_what_is_done():
    process = hanging("a")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert "without a result: interrupted" in Path("err").read_text()
    assert "\nIncomplete: 0 of " in Path("out").read_text()
    assert os.readlink("latest") == "a"
    assert not os.path.lexists("latest-good")
    assert "the ranks ended early (interrupted)" in Path("a", "report.json").read_text()


def test_a_terminated_run_leaves_no_process(folder):
    """A terminal that is closed sends SIGHUP, and SIGKILL leaves the launching process no time."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL):
        out = folder / number.name
        process = hanging(number.name)
        assert processes_of(out)
        process.send_signal(number)
        begin = time.monotonic()
        assert process.wait() == (-number if number == signal.SIGKILL else 130)
        while number == signal.SIGKILL and processes_of(out) and time.monotonic() - begin < 20:
            time.sleep(0.1)
        assert time.monotonic() - begin < 20, number
        assert not processes_of(out), f"a process is still there after {number!r}"


def test_a_rank_that_throws_ends_the_run_on_all_ranks():
    begin = time.monotonic()
    done = tidemark("run fsdp_prefetch --ranks 3 --mode shapes --schedule instant --size seed --capacity 1000000000 --out a")
    assert time.monotonic() - begin < 30
    assert done.returncode == 3, done.stdout + done.stderr
    assert "out of memory: asked" in done.stdout
    variants = read("a")["trials"][0]["variants"]
    assert len(variants) > 5
    for variant in variants:
        assert "CUDA out of memory" in variant["error"]


def test_a_rank_that_fails_before_the_communicator_exists_blocks_no_other_rank():
    """A rank that has no communicator yet cannot be told through it."""
    for rank in (0, 2):
        begin = time.monotonic()
        done = tidemark(f"run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant --ranks 3 --out unmade-{rank}",
                        TIDEMARK_FAULT=f"do=throw call=communicator rank={rank}")
        assert time.monotonic() - begin < 30
        assert done.returncode == 3, done.stderr
        first, second = read(f"unmade-{rank}")["trials"][0]["variants"]
        assert first["error"].startswith(f"rank {rank}: injected fault in communicator 1"), first["error"]
        assert len(second["ranks"]) == 3, "the other variant did not run"
