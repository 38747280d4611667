#!/usr/bin/env python3
"""The command as it runs on a GPU, rehearsed on the virtual device, and held against the virtual device: the same events of
the allocator at both ends of the bracket, the same calls of the host in between. And whatever is changed in a recording is
found. rehearsal_test.py TIDEMARK BROKEN_NCCL: the second is loaded before NCCL and is it on a broken network, or refuses ranks"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve())
BROKEN_NCCL = str(pathlib.Path(sys.argv.pop(1)).resolve())
MEASURED_TEST = pathlib.Path(__file__).resolve().parent / "measured_test.py"
CASES = ["fsdp_prefetch/stash/smoke", "fsdp_prefetch/separate_streams/smoke", "tp_buffer_reuse/recompute/smoke",
         "frozen_reshard/input_node/smoke", "zero_bubble_detach/detach_outputs/smoke"]


def environment(rehearsed, **more):
    mine = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
    return {**mine, **({"TIDEMARK_PLATFORM": "cuda"} if rehearsed else {}), **more}


def run(*words, cwd, rehearsed=False, launcher=(), **more):
    return subprocess.run([*launcher, BINARY, *map(str, words)], capture_output=True, text=True, cwd=cwd, env=environment(rehearsed, **more))


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        # Every rank stands still, outside of NCCL: on a GPU nobody would ever know. It takes its time, so it goes on beside the rest.
        cls.stuck = subprocess.Popen(
            [BINARY, "run", CASES[0], "--ranks", "2", "--timeout", "1", "--schedule", "device", "--history", "off", "--out", "stuck"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=cls.folder,
            env=environment(True, LD_PRELOAD=BROKEN_NCCL,
                            TIDEMARK_FAULT="rank=0 call=all_gather nth=3 do=hang; rank=1 call=all_gather nth=3 do=hang"))
        common = ["run", *CASES, "--ranks", 2, "--steps", 2, "--events", "--details", "none", "--history", "off", "--schedule", "all"]
        cls.cuda = run(*common, "--repetitions", 3, "--out", "cuda", cwd=cls.folder, rehearsed=True)
        cls.virtual = run(*common, "--races", "off", "--out", "virtual", cwd=cls.folder)
        cls.report = json.loads((cls.folder / "cuda/report.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def trials(self, schedule):
        return [t for t in self.report["trials"] if t["schedule"] == schedule]

    def test_every_closed_form_holds_as_on_a_gpu(self):
        self.assertEqual(self.cuda.returncode, 0, self.cuda.stdout[-3000:] + self.cuda.stderr)
        self.assertEqual(self.virtual.returncode, 0, self.virtual.stdout[-3000:] + self.virtual.stderr)
        names = [v["name"] for t in self.report["trials"] for v in t["verdicts"] if v["status"] == "pass"]
        for kind in ("memory/active/", "saving/", "parity/baseline/", "bracket/requested/"):
            self.assertTrue(any(name.startswith(kind) for name in names), kind)

    def test_it_cannot_pass_for_hardware(self):
        device = self.report["run"]["device"]
        self.assertEqual(device["kind"], "cuda")
        self.assertEqual(device["profile"], "rehearsal on the virtual device h100-80g")
        self.assertIn("rehearsal on the virtual device", (self.folder / "cuda/summary.md").read_text())

    def test_nothing_was_left_unheld(self):
        ranks = [r for t in self.trials("lagging") for v in t["variants"] for r in v["ranks"]]
        self.assertTrue(ranks)
        self.assertEqual([r["unheld"] for r in ranks if "unheld" in r], [])

    def test_ranks_that_share_a_gpu_say_so(self):
        said = "ranks 0, 1 on one GPU: each with its part of 90 % of the memory, and a NCCL_HOSTID of its own"
        self.assertEqual(self.report["run"]["device"]["sharing"], said)
        self.assertIn(said, self.cuda.stderr)
        self.assertIn("ranks 0, 1 on one GPU", (self.folder / "cuda/summary.md").read_text())
        virtual = json.loads((self.folder / "virtual/report.json").read_text())
        self.assertNotIn("sharing", virtual["run"]["device"])

    def test_each_has_its_part_of_a_shared_gpu(self):
        words = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--schedule", "instant", "--history", "off", "--capacity", 120 << 20]
        alone = run(*words, "--out", "alone", cwd=self.folder)
        self.assertEqual(alone.returncode, 0, alone.stdout)
        shared = run(*words, "--out", "shared", cwd=self.folder, rehearsed=True)
        self.assertEqual(shared.returncode, 3, shared.stdout)
        self.assertIn("54.00 MiB allowed", shared.stdout)

    def test_ranks_that_stand_still_are_ended(self):
        _, said = self.stuck.communicate(timeout=200)
        self.assertEqual(self.stuck.returncode, 3, said)
        self.assertRegex(said, r"error: rank \d: has not got any further for 31 s \(--timeout\): in the warm-up of fsdp_prefetch")

        self.assertIn("broken_nccl: ncclCommAbort in process", said)

    def test_a_broken_network_ends_the_run_at_once(self):
        # Rank 0 stands still, and rank 1 waits for it in a collective, or to say what it threw: for eleven minutes otherwise.
        for name, rank_1, more in (("aborts", "throw", {}), ("abort-hangs", "slow", {"HANGING_ABORT": "1"})):
            begin = time.monotonic()
            broken = run("run", CASES[0], "--ranks", 2, "--schedule", "device", "--history", "off", "--out", name, cwd=self.folder,
                         rehearsed=True, LD_PRELOAD=BROKEN_NCCL, BROKEN_NCCL="2",
                         TIDEMARK_FAULT=f"rank=0 call=all_gather nth=3 do=hang; rank=1 call=all_gather nth=3 do={rank_1}", **more)
            self.assertLess(time.monotonic() - begin, 60)
            self.assertEqual(broken.returncode, 3, broken.stderr)
            errors = [line for line in broken.stderr.splitlines() if line.startswith("error: rank")]
            self.assertEqual(len(errors), 1, broken.stderr)
            self.assertRegex(errors[0], r"error: rank \d: communicator \d of 2 ranks: remote process exited or there was a network error.*: in the warm-up of fsdp_prefetch")
            self.assertIn("broken_nccl: ncclCommAbort in process", broken.stderr)
            ended = json.loads((self.folder / name / "report.json").read_text())["trials"][0]["variants"][0]["error"]
            self.assertEqual(", where it threw: injected fault in all_gather 3" in ended, rank_1 == "throw", ended)

    def test_step_times_are_those_of_the_devices_own_time(self):
        for trial in self.trials("device"):
            variants = {v["name"]: v for v in trial["variants"]}
            for variant in variants.values():
                timing = variant["timing"]
                self.assertEqual((timing["repetitions"], timing["samples"]), (3, 3))
                self.assertGreater(timing["low_ns"], 0)
                self.assertLessEqual(timing["low_ns"], timing["median_ns"])
                self.assertLessEqual(timing["median_ns"], timing["high_ns"])
                self.assertGreater(timing["ratio"]["lowest"], 0)
            base = next(v for v in trial["variants"] if v["role"] == "baseline")
            self.assertEqual(base["timing"]["ratio"], {"median": 1, "lowest": 1, "highest": 1})
        for schedule in ("instant", "lagging"):
            for trial in self.trials(schedule):
                self.assertTrue(all(v["step_time_ns"] == [] and "timing" not in v for v in trial["variants"]))
        for one in json.loads((self.folder / "cuda/benchmark.json").read_text())["benchmarks"]:
            self.assertEqual(one["real_time"] > 0, "/device/" in one["name"], one["name"])
            self.assertEqual(one.get("error_occurred", False), "/device/" not in one["name"], one["name"])
        self.assertIn("3 repetitions in turns", (self.folder / "cuda/summary.md").read_text())

    def test_what_is_predicted_is_measured(self):
        held = run("predicted", "virtual", "cuda", "--format", "json", cwd=self.folder)
        self.assertEqual(held.returncode, 0, held.stderr)
        said = json.loads(held.stdout)
        self.assertEqual((said["step_times"]["count"], said["ratios_to_baseline"]["count"], said["unpaired"]), (9, 5, []))
        for key in ("step_times", "ratios_to_baseline"):
            self.assertAlmostEqual(said[key]["largest_times_off"], 1, 4, said)
        self.assertIn("a rehearsal: no figure here is from hardware", said["notes"])

    def test_what_the_allocator_does_not_see_has_its_line(self):
        for trial in self.report["trials"]:
            for variant in trial["variants"]:
                self.assertTrue(all(r["outside_allocator"] >= 0 for r in variant["ranks"]))
                # Each process has a virtual device of its own: all that is taken of it is this process's.
                for rank in variant["ranks"]:
                    self.assertEqual(rank["outside_owners"], {"own": rank["outside_allocator"], "others": 0, "driver": 0})
        self.assertRegex((self.folder / "cuda/summary.md").read_text(), r"By NVML under device \(this process [^)]*\), bytes: rank 0: [\d,]+ / 0 / 0; rank 1: ")
        self.assertNotIn("outside_owners", (self.folder / "virtual/report.json").read_text())

    def test_the_virtual_device_does_what_was_done_here(self):
        held = run("compare", "cuda", "virtual", "--events", cwd=self.folder)
        self.assertEqual(held.returncode, 0, held.stdout + held.stderr)
        counts = re.search(r"^(\d+) traces of (\d+) events equal, 0 different, 0 skipped, 0 in one alone$", held.stdout, re.M)
        self.assertIsNotNone(counts, held.stdout)
        files = list((self.folder / "cuda/allocator").rglob("*.txt"))
        self.assertEqual(int(counts[1]), len(files))
        self.assertGreater(len(files), 50)
        self.assertGreater(int(counts[2]), 10000)

    def test_one_event_changed_is_named(self):
        file = next((self.folder / "cuda/allocator").glob("fsdp_prefetch/**/lagging/stash_rank1.txt"))
        text = file.read_text()
        lines = text.splitlines()
        place = max(i for i, line in enumerate(lines) if line.startswith("a "))
        words = lines[place].split(" ", 3)
        lines[place] = " ".join([*words[:2], str(int(words[2]) + 1), words[3]])
        try:
            file.write_text("\n".join(lines) + "\n")
            held = run("compare", "cuda", "virtual", "--events", cwd=self.folder)
        finally:
            file.write_text(text)
        self.assertEqual(held.returncode, 1, held.stdout)
        self.assertIn("fsdp_prefetch/smoke/r2/math/lagging/stash/rank1\n  step 1, event ", held.stdout)
        self.assertIn(f"alloc of block {words[1]}, {int(words[2]) + 1} bytes", held.stdout)
        self.assertRegex(held.stdout, rf"\| alloc of block {words[1]}, {words[2]} bytes, stream \d+ \(aten::")

    def test_bad_input_is_one_line(self):
        (self.folder / "empty").mkdir(exist_ok=True)
        for words, code in ((["cuda", "empty"], 2), (["cuda"], 2), (["cuda", "nowhere.json"], 2),
                            (["cuda", "cuda/report.json"], 2), (["cuda", "virtual", "--threshold", "time=5%"], 2)):
            held = run("compare", *words, "--events", cwd=self.folder)
            self.assertEqual(held.returncode, code, words)
            self.assertEqual(held.stderr.count("\n"), 1, held.stderr)
            self.assertTrue(held.stderr.startswith("error: "), held.stderr)


class Staged(unittest.TestCase):
    """Collectives through the host's memory, where NCCL refuses ranks that share a GPU."""

    ONE = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--details", "none", "--history", "off", "--schedule", "instant", "--device", "virtual", "--out", "out"]
    SAYS = "collectives through the host's memory (the staged NCCL, not NVIDIA's)"

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_nothing_else_is_changed(self):
        common = ["run", *CASES, "--ranks", 2, "--steps", 2, "--events", "--details", "none", "--history", "off", "--races", "off"]
        staged = run(*common, "--schedule", "lagging", "--collectives", "staged", "--out", "staged", cwd=self.folder, rehearsed=True)
        virtual = run(*common, "--schedule", "lagging", "--out", "virtual", cwd=self.folder)
        self.assertEqual((staged.returncode, virtual.returncode), (0, 0), staged.stdout[-3000:] + staged.stderr)
        device = json.loads((self.folder / "staged/report.json").read_text())["run"]
        self.assertIn(self.SAYS, device["device"]["sharing"])
        self.assertTrue(device["nccl"].endswith(" (staged)"), device["nccl"])
        held = run("compare", "staged", "virtual", "--events", cwd=self.folder)
        self.assertEqual(held.returncode, 0, held.stdout)
        self.assertRegex(held.stdout, r"equal, 0 different, 0 skipped, 0 in one alone\n$")

    def test_auto_takes_them_where_nccl_refuses(self):
        for more in ({"NCCL_INIT": "refuses"}, {"NCCL_INIT": "hangs", "TIDEMARK_TIMEOUT": "2"}):
            done = run(*self.ONE[:-1], "out" + str(len(more)), cwd=self.folder, rehearsed=True, LD_PRELOAD=BROKEN_NCCL, **more)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            why = "no answer within 2 s" if len(more) > 1 else "rank 0: ncclCommInitRank: invalid usage"
            self.assertRegex(done.stderr, f"note: NCCL refuses ranks that share a GPU .*{why}.*once more")
            self.assertIn(self.SAYS, done.stderr)

    def test_where_tidemark_cannot_start_again_it_says_what_to_do(self):
        launcher = ("mpirun", "-q", "--oversubscribe", "-n", "2")
        for more in ({"NCCL_INIT": "refuses"}, {"NCCL_INIT": "hangs", "TIDEMARK_TIMEOUT": "2"}):
            for words, by in ((self.ONE, launcher), ([*self.ONE, "--collectives", "nccl"], ())):
                done = run(*words, cwd=self.folder, rehearsed=True, launcher=by, LD_PRELOAD=BROKEN_NCCL, **more)
                self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn("): --collectives staged goes through the host's memory", done.stderr)

    def test_it_is_for_a_gpu(self):
        done = run(*self.ONE, "--collectives", "staged", cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)


class Alone(unittest.TestCase):
    """One process with the memory of one rank of many."""

    COMMON = ["run", *CASES, "--ranks", 3, "--steps", 2, "--events", "--details", "none", "--history", "off", "--races", "off", "--schedule", "lagging"]

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_it_has_that_ranks_memory_event_by_event(self):
        together = run(*self.COMMON, "--mode", "shapes", "--out", "together", cwd=self.folder)
        self.assertEqual(together.returncode, 0, together.stdout[-3000:] + together.stderr)
        for name, rehearsed, more in (("virtual", False, []), ("staged", True, ["--collectives", "staged"])):
            alone = run(*self.COMMON, "--stand-for", 1, *more, "--out", name, cwd=self.folder, rehearsed=rehearsed)
            self.assertEqual(alone.returncode, 0, alone.stdout[-3000:] + alone.stderr)
            report = json.loads((self.folder / name / "report.json").read_text())
            said = "one process stands for rank 1 of 3: memory alone, its collectives have no partners"
            self.assertEqual(report["run"]["device"]["sharing"], said)
            self.assertIn(said, (self.folder / name / "summary.md").read_text())
            for trial in report["trials"]:
                self.assertEqual((trial["ranks"], trial["mode"]), (3, "shapes"))
                self.assertTrue(all([r["rank"] for r in v["ranks"]] == [1] for v in trial["variants"]))
            held = run("compare", name, "together", "--events", cwd=self.folder)
            traces = sum(len(t["variants"]) for t in report["trials"])
            self.assertEqual(held.returncode, 0, held.stdout)
            self.assertRegex(held.stdout, rf"\n{traces} traces of \d+ events equal, 0 different, 0 skipped, {2 * traces} in one alone\n$")

    def test_bad_input_is_one_line(self):
        for more in (["--stand-for", 3], ["--stand-for", 1, "--mode", "math"], ["--stand-for", 1, "--collectives", "nccl"], ["--stand-for", "x"]):
            done = run(*self.COMMON, *more, "--device", "virtual", cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    def test_what_does_not_fit_is_left_out_and_named(self):
        common = ["--size", "seed", "--ranks", 1, "--schedule", "instant", "--steps", 2, "--dry-run", "--device", "virtual", "--gpu", "h100-80g"]
        refused = run("run", "zero_bubble_detach/retained", *common, cwd=self.folder, rehearsed=True)
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1), refused.stderr)
        self.assertRegex(refused.stderr, r"a rank needs 8\d\.\d GiB, this GPU has 79\.6 GiB: choose a smaller --size")
        planned = run("run", "zero_bubble_detach/retained", "fsdp_prefetch/stash", *common, cwd=self.folder, rehearsed=True)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertEqual([("SKIPPED: a rank needs" in line) for line in planned.stdout.splitlines()], [False, True])
        fits = run("run", "zero_bubble_detach/retained", *common, "--ranks", 8, "--stand-for", 7, cwd=self.folder, rehearsed=True)
        self.assertNotIn("SKIPPED", fits.stdout + fits.stderr)


class Measured(unittest.TestCase):
    """What `tidemark measured` keeps, and the test that holds the virtual platform against it."""

    def test_a_recording_is_held_and_a_changed_one_fails(self):
        with tempfile.TemporaryDirectory() as scratch:
            made = run("run", "fsdp_prefetch/stash/smoke", "--ranks", 2, "--steps", 2, "--mode", "shapes", "--schedule", "lagging",
                       "--gpu", "h200-141g", "--events", "--details", "none", "--history", "off", "--out", "run", cwd=scratch, rehearsed=True)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            folder = pathlib.Path(scratch, "measured")
            folder.mkdir()

            def held(*flags):
                return subprocess.run([sys.executable, MEASURED_TEST, BINARY, folder, *flags], capture_output=True, text=True)

            nothing = held()
            self.assertEqual(nothing.returncode, 77, nothing.stdout)
            self.assertIn("no recording", nothing.stdout)
            recording = folder / "h200-141g.json"
            kept = run("measured", "run", "--out", recording, cwd=scratch)
            self.assertEqual(kept.returncode, 0, kept.stderr)
            refused = held()
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertIn("which is no GPU", refused.stdout)
            equal = held("--rehearsal")
            self.assertEqual(equal.returncode, 0, equal.stdout + equal.stderr)
            self.assertIn("4 traces of ", equal.stdout)
            data = json.loads(recording.read_text())
            trace = data["traces"][0]
            place = next(i for i, line in enumerate(trace) if line.startswith("r "))
            trace[place], trace[place + 1] = trace[place + 1], trace[place]
            recording.write_text(json.dumps(data))
            changed = held("--rehearsal")
            self.assertEqual(changed.returncode, 1, changed.stdout)
            self.assertRegex(changed.stdout, r"event \d+: ")
            # Of another GPU: its multiprocessors decide temporaries, its memory does not.
            recording.write_text(json.dumps({**data, "traces": []}))
            self.assertEqual(held("--rehearsal").returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
