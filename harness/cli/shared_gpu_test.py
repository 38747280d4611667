"""Fewer GPUs than ranks, rehearsed: collectives through the host's memory where NCCL refuses ranks that share one, and one
process with the memory of one rank of many."""
import json
import os
import re
from pathlib import Path

from command import CASES, passes, read, refuses, tidemark

BROKEN_NCCL = os.environ["BROKEN_NCCL_LIBRARY"]
ONE = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--details", "none", "--history", "off", "--schedule", "instant", "--device", "virtual", "--out", "out"]
SAYS = "collectives through the host's memory (the staged NCCL, not NVIDIA's)"
COMMON = ["run", *CASES, "--ranks", 3, "--steps", 2, "--events", "--details", "none", "--history", "off", "--races", "off", "--schedule", "lagging"]


def test_nothing_else_is_changed():
    common = ["run", *CASES, "--ranks", 2, "--steps", 2, "--events", "--details", "none", "--history", "off", "--races", "off"]
    passes(*common, "--schedule", "lagging", "--collectives", "staged", "--out", "staged", rehearsed=True)
    passes(*common, "--schedule", "lagging", "--out", "virtual")
    device = json.loads(Path("staged/report.json").read_text())["run"]
    assert SAYS in device["device"]["sharing"]
    assert device["nccl"].endswith(" (staged)"), device["nccl"]
    comparison = passes("compare", "staged", "virtual", "--events")
    assert re.search(r"equal, 0 different, 0 skipped, 0 in one alone\n$", comparison.stdout), comparison.stdout


def test_auto_takes_them_where_nccl_refuses():
    for more in ({"NCCL_INIT": "refuses"}, {"NCCL_INIT": "hangs", "TIDEMARK_TIMEOUT": "2"}):
        done = passes(*ONE[:-1], "out" + str(len(more)), rehearsed=True, LD_PRELOAD=BROKEN_NCCL, **more)
        why = "no answer within 2 s" if len(more) > 1 else "rank 0: ncclCommInitRank: invalid usage"
        assert re.search(f"note: NCCL refuses ranks that share a GPU .*{why}.*once more", done.stderr), done.stderr
        assert SAYS in done.stderr


def test_where_tidemark_cannot_start_again_it_says_what_to_do():
    launcher = ("mpirun", "--oversubscribe", "-n", "2")
    for more in ({"NCCL_INIT": "refuses"}, {"NCCL_INIT": "hangs", "TIDEMARK_TIMEOUT": "2"}):
        for words, by in (([], launcher), (["--collectives", "nccl"], ())):
            out = f"{len(more)}{len(words)}"  # what ended early keeps its folder
            refuses(3, "): --collectives staged goes through the host's memory", *ONE[:-1], out, *words, rehearsed=True, launcher=by,
                    LD_PRELOAD=BROKEN_NCCL, **more)


def test_it_is_for_a_gpu():
    refuses(2, "", *ONE, "--collectives", "staged")


def test_it_has_that_ranks_memory_event_by_event():
    passes(*COMMON, "--mode", "shapes", "--out", "together")
    for name, rehearsed, more in (("virtual", False, []), ("staged", True, ["--collectives", "staged"])):
        passes(*COMMON, "--as-rank", 1, *more, "--out", name, rehearsed=rehearsed)
        report = read(name)
        note = "one process stands for rank 1 of 3: memory alone, its collectives have no partners"
        assert report["run"]["device"]["sharing"] == note
        assert note in Path(name, "summary.md").read_text()
        for trial in report["trials"]:
            assert (trial["ranks"], trial["mode"]) == (3, "shapes")
            assert all([r["rank"] for r in v["ranks"]] == [1] for v in trial["variants"])
        comparison = passes("compare", name, "together", "--events")
        traces = sum(len(t["variants"]) for t in report["trials"])
        assert re.search(rf"\n{traces} traces of \d+ events equal, 0 different, 0 skipped, {2 * traces} in one alone\n$", comparison.stdout), comparison.stdout


def test_bad_input_is_one_line():
    for more in (["--as-rank", 3], ["--as-rank", 1, "--mode", "math"], ["--as-rank", 1, "--collectives", "nccl"], ["--as-rank", "x"]):
        refuses(2, "", *COMMON, *more, "--device", "virtual")


def test_what_does_not_fit_is_left_out_and_named():
    common = ["--size", "seed", "--ranks", 1, "--schedule", "instant", "--steps", 2, "--dry-run", "--device", "virtual", "--gpu", "h100-80g"]
    refused = tidemark("run", "zero_bubble_detach/retained", *common, rehearsed=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert re.search(r"a rank needs 14\d\.\d GiB, this GPU has 79\.2 GiB: choose a smaller --size", refused.stderr), refused.stderr
    planned = passes("run", "zero_bubble_detach/retained", "fsdp_prefetch/stash", *common, rehearsed=True)
    skipped = [line for line in planned.stdout.splitlines() if "SKIPPED: a rank needs" in line]
    assert [line.split("/")[0] for line in skipped] == ["zero_bubble_detach"]
    assert "1 of 2 trials would run, 1 would be skipped" in planned.stdout
    fits = tidemark("run", "zero_bubble_detach/retained", *common, "--ranks", 8, "--as-rank", 7, rehearsed=True)
    assert "SKIPPED" not in fits.stdout + fits.stderr
