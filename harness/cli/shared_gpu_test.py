#!/usr/bin/env python3
"""Fewer GPUs than ranks, rehearsed: collectives through the host's memory where NCCL refuses ranks that share one, and one
process with the memory of one rank of many. shared_gpu_test.py TIDEMARK BROKEN_NCCL: the second refuses ranks"""
import json
import pathlib
import sys
import unittest

from command import CASES, InFolder, read

BROKEN_NCCL = str(pathlib.Path(sys.argv[2]).resolve())


class Staged(InFolder):
    """Collectives through the host's memory, where NCCL refuses ranks that share a GPU."""

    ONE = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--details", "none", "--history", "off", "--schedule", "instant", "--device", "virtual", "--out", "out"]
    SAYS = "collectives through the host's memory (the staged NCCL, not NVIDIA's)"

    def test_nothing_else_is_changed(self):
        common = ["run", *CASES, "--ranks", 2, "--steps", 2, "--events", "--details", "none", "--history", "off", "--races", "off"]
        self.passes(*common, "--schedule", "lagging", "--collectives", "staged", "--out", "staged", rehearsed=True)
        self.passes(*common, "--schedule", "lagging", "--out", "virtual")
        device = json.loads((self.folder / "staged/report.json").read_text())["run"]
        self.assertIn(self.SAYS, device["device"]["sharing"])
        self.assertTrue(device["nccl"].endswith(" (staged)"), device["nccl"])
        held = self.passes("compare", "staged", "virtual", "--events")
        self.assertRegex(held.stdout, r"equal, 0 different, 0 skipped, 0 in one alone\n$")

    def test_auto_takes_them_where_nccl_refuses(self):
        for more in ({"NCCL_INIT": "refuses"}, {"NCCL_INIT": "hangs", "TIDEMARK_TIMEOUT": "2"}):
            done = self.passes(*self.ONE[:-1], "out" + str(len(more)), rehearsed=True, LD_PRELOAD=BROKEN_NCCL, **more)
            why = "no answer within 2 s" if len(more) > 1 else "rank 0: ncclCommInitRank: invalid usage"
            self.assertRegex(done.stderr, f"note: NCCL refuses ranks that share a GPU .*{why}.*once more")
            self.assertIn(self.SAYS, done.stderr)

    def test_where_tidemark_cannot_start_again_it_says_what_to_do(self):
        launcher = ("mpirun", "--oversubscribe", "-n", "2")
        for more in ({"NCCL_INIT": "refuses"}, {"NCCL_INIT": "hangs", "TIDEMARK_TIMEOUT": "2"}):
            for words, by in (([], launcher), (["--collectives", "nccl"], ())):
                out = f"{len(more)}{len(words)}"  # what ended early keeps its folder
                self.refuses(3, "): --collectives staged goes through the host's memory", *self.ONE[:-1], out, *words, rehearsed=True, launcher=by,
                             LD_PRELOAD=BROKEN_NCCL, **more)

    def test_it_is_for_a_gpu(self):
        self.refuses(2, "", *self.ONE, "--collectives", "staged")


class Alone(InFolder):
    """One process with the memory of one rank of many."""

    COMMON = ["run", *CASES, "--ranks", 3, "--steps", 2, "--events", "--details", "none", "--history", "off", "--races", "off", "--schedule", "lagging"]

    def test_it_has_that_ranks_memory_event_by_event(self):
        self.passes(*self.COMMON, "--mode", "shapes", "--out", "together")
        for name, rehearsed, more in (("virtual", False, []), ("staged", True, ["--collectives", "staged"])):
            self.passes(*self.COMMON, "--as-rank", 1, *more, "--out", name, rehearsed=rehearsed)
            report = read(self.folder / name)
            said = "one process stands for rank 1 of 3: memory alone, its collectives have no partners"
            self.assertEqual(report["run"]["device"]["sharing"], said)
            self.assertIn(said, (self.folder / name / "summary.md").read_text())
            for trial in report["trials"]:
                self.assertEqual((trial["ranks"], trial["mode"]), (3, "shapes"))
                self.assertTrue(all([r["rank"] for r in v["ranks"]] == [1] for v in trial["variants"]))
            held = self.passes("compare", name, "together", "--events")
            traces = sum(len(t["variants"]) for t in report["trials"])
            self.assertRegex(held.stdout, rf"\n{traces} traces of \d+ events equal, 0 different, 0 skipped, {2 * traces} in one alone\n$")

    def test_bad_input_is_one_line(self):
        for more in (["--as-rank", 3], ["--as-rank", 1, "--mode", "math"], ["--as-rank", 1, "--collectives", "nccl"], ["--as-rank", "x"]):
            self.refuses(2, "", *self.COMMON, *more, "--device", "virtual")

    def test_what_does_not_fit_is_left_out_and_named(self):
        common = ["--size", "seed", "--ranks", 1, "--schedule", "instant", "--steps", 2, "--dry-run", "--device", "virtual", "--gpu", "h100-80g"]
        refused = self.tidemark("run", "zero_bubble_detach/retained", *common, rehearsed=True)
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1), refused.stderr)
        self.assertRegex(refused.stderr, r"a rank needs 14\d\.\d GiB, this GPU has 79\.2 GiB: choose a smaller --size")
        planned = self.passes("run", "zero_bubble_detach/retained", "fsdp_prefetch/stash", *common, rehearsed=True)
        skipped = [line for line in planned.stdout.splitlines() if "SKIPPED: a rank needs" in line]
        self.assertEqual([line.split("/")[0] for line in skipped], ["zero_bubble_detach"])
        self.assertIn("1 of 2 trials would run, 1 would be skipped", planned.stdout)
        fits = self.tidemark("run", "zero_bubble_detach/retained", *common, "--ranks", 8, "--as-rank", 7, rehearsed=True)
        self.assertNotIn("SKIPPED", fits.stdout + fits.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
