#!/usr/bin/env python3
"""unfinished_test.py TIDEMARK: runs of the command in which not everything runs or passes: skipped trials, faults, interruptions, and what is said of them."""
import os
import shlex
import signal
import subprocess
import sys
import time
import unittest

from command import BINARY, InFolder, environment, processes_of, read

EIGHT_HEADS_ON_THREE_RANKS = ("run 'fsdp_prefetch/stash/smoke' 'tp_buffer_reuse/recompute/smoke' --mode shapes --schedule instant --ranks 3 "
                              "--steps 2 ")  # which do not divide


class Unfinished(InFolder):
    def test_a_fault_that_did_not_happen_is_a_failure(self):
        """What one rank's fault does to the others is fault_test.py's and oom_test.py's; here its plan."""
        line = "run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant --ranks 2 --out "
        fault = "rank=1 call=all_gather nth=300000 do=kill"
        done = self.tidemark(line + "a", TIDEMARK_FAULT=fault)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"FAIL the fault '{fault}' did not happen: rank 1 made ", done.stdout)
        self.assertTrue(done.stdout.endswith("\n1 planned fault did not happen\nreport: a/report.html\n"), done.stdout)
        self.assertFalse((self.folder / "history.sqlite").exists(), "a run under faults is in the history")
        for fault, says in (("rank=2 do=kill", "there is no rank 2: 2 ranks run"), ("call=all_gathr do=kill", "there is no call 'all_gathr'"),
                            ("rank=1 do=nosuch", "do must say what happens")):
            self.refuses(2, says, line + "b", TIDEMARK_FAULT=fault)

    def test_a_skipped_trial_is_a_failure_where_all_are_required(self):
        said = self.passes(EIGHT_HEADS_ON_THREE_RANKS + "--out a").stdout
        self.assertIn("\nskipped: tp_buffer_reuse/smoke (1 trial): heads=8 does not", said)
        self.assertIn("1 of 2 trials finished, 1 skipped; ", said)
        self.assertFalse(os.path.lexists(self.folder / "latest-good"), "not all of it ran")
        required = self.tidemark(EIGHT_HEADS_ON_THREE_RANKS + "--out b --require-all")
        self.assertEqual(required.returncode, 1)
        self.assertTrue(required.stdout.endswith("\n1 of 2 trials skipped, and all are required\nreport: b/report.html\n"), required.stdout)

    def test_a_dry_run_says_what_would_be_skipped_and_how_long_it_takes(self):
        before = self.passes(EIGHT_HEADS_ON_THREE_RANKS + "--dry-run").stdout
        self.assertIn("SKIPPED: heads=8 does not divide among 3 ranks", before)
        self.assertIn("1 of 2 trials would run, 1 would be skipped. How long is unknown", before)
        self.passes(EIGHT_HEADS_ON_THREE_RANKS)
        latest = self.folder / "tidemark-out" / "latest"
        self.assertEqual(os.readlink(latest), read(latest)["run"]["id"])
        self.assertIn("would be skipped. About ", self.tidemark(EIGHT_HEADS_ON_THREE_RANKS + "--dry-run").stdout)

    def test_the_scale_size_fits_any_power_of_two_up_to_64(self):
        """Sizes follow the ranks."""
        for ranks in (1, 2, 4, 8, 16, 32, 64):
            plan = self.passes(f"run --size scale --as-rank 0 --dry-run --ranks {ranks}").stdout
            self.assertIn("\n15 of 15 trials would run, 0 would be skipped.", plan, ranks)

    def test_a_capacity_is_taken_in_units(self):
        self.passes("run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant --ranks 1 --capacity 6GiB --out a", TIDEMARK_CAPACITY="5GiB")
        report = read(self.folder / "a")
        self.assertEqual(report["trials"][0]["capacity_bytes"], 6 << 30)
        self.assertEqual(report["run"]["env"]["TIDEMARK_CAPACITY"], str(6 << 30))

    def hanging(self, out):
        """A run whose second rank hangs, once it has come to a variant."""
        with open(self.folder / "out", "w") as printed, open(self.folder / "err", "w") as said:
            process = subprocess.Popen([BINARY, *shlex.split(f"run fsdp_prefetch/stash --size smoke --mode math --ranks 2 --out {out}")], cwd=self.folder,
                                       env=environment(TIDEMARK_FAULT="rank=1 nth=30 do=hang"), stdout=printed, stderr=said)
        for _ in range(600):
            if "[1/" in (self.folder / "err").read_text():
                break
            time.sleep(0.1)
        return process

    def test_an_interrupted_run_reports_what_is_done(self):
        process = self.hanging("a")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        self.assertIn("without a result: interrupted", (self.folder / "err").read_text())
        self.assertIn("\nIncomplete: 0 of ", (self.folder / "out").read_text())
        self.assertEqual(os.readlink(self.folder / "latest"), "a")
        self.assertFalse(os.path.lexists(self.folder / "latest-good"))
        self.assertIn("the ranks ended early (interrupted)", (self.folder / "a" / "report.json").read_text())

    def test_a_terminated_run_leaves_no_process(self):
        """A terminal that is closed sends SIGHUP, and SIGKILL leaves the launching process no time."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL):
            out = self.folder / number.name
            process = self.hanging(number.name)
            self.assertTrue(processes_of(out))
            process.send_signal(number)
            begin = time.monotonic()
            self.assertEqual(process.wait(), -number if number == signal.SIGKILL else 130)
            while number == signal.SIGKILL and processes_of(out) and time.monotonic() - begin < 20:
                time.sleep(0.1)
            self.assertLess(time.monotonic() - begin, 20, number)
            self.assertFalse(processes_of(out), f"a process is still there after {number!r}")

    def test_a_rank_that_throws_ends_the_run_on_all_ranks(self):
        begin = time.monotonic()
        done = self.tidemark("run fsdp_prefetch --ranks 3 --mode shapes --schedule instant --size seed --capacity 1000000000 --out a")
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("out of memory: asked", done.stdout)
        variants = read(self.folder / "a")["trials"][0]["variants"]
        self.assertGreater(len(variants), 5)
        for variant in variants:
            self.assertIn("CUDA out of memory", variant["error"])

    def test_a_rank_that_fails_before_the_communicator_exists_blocks_no_other_rank(self):
        """A rank that has no communicator yet cannot be told through it."""
        for rank in (0, 2):
            begin = time.monotonic()
            done = self.tidemark(f"run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant --ranks 3 --out unmade-{rank}",
                                 TIDEMARK_FAULT=f"do=throw call=communicator rank={rank}")
            self.assertLess(time.monotonic() - begin, 30)
            self.assertEqual(done.returncode, 3, done.stderr)
            first, second = read(self.folder / f"unmade-{rank}")["trials"][0]["variants"]
            self.assertTrue(first["error"].startswith(f"rank {rank}: injected fault in communicator 1"), first["error"])
            self.assertEqual(len(second["ranks"]), 3, "the other variant did not run")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
