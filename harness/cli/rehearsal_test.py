#!/usr/bin/env python3
"""The command as it runs on a GPU, rehearsed on the virtual device, and compared with the virtual device: the same events of
the allocator at both ends of the bracket, the same calls of the host in between, the same numbers to the bit. And whatever is
changed in a recording is found. rehearsal_test.py TIDEMARK BROKEN_NCCL: the second is loaded before NCCL and is it on a broken network"""
import json
import lzma
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from command import BINARY, CASES, Commands, InFolder, environment, read, run

BROKEN_NCCL = str(pathlib.Path(sys.argv[2]).resolve())
MEASURED_TEST = pathlib.Path(__file__).resolve().parent / "measured_test.py"


class Rehearsal(Commands):
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
        common = ["run", *CASES, "--ranks", 2, "--steps", 2, "--events", "--numbers", "--details", "none", "--history", "off", "--schedule", "all"]
        cls.cuda = run(*common, "--repetitions", 3, "--out", "cuda", cwd=cls.folder, rehearsed=True)
        cls.virtual = run(*common, "--races", "off", "--out", "virtual", cwd=cls.folder)
        cls.report = read(cls.folder / "cuda")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def trials(self, schedule):
        return [t for t in self.report["trials"] if t["schedule"] == schedule]

    def test_every_closed_form_holds_as_on_a_gpu(self):
        self.assertEqual(self.cuda.returncode, 0, self.cuda.stdout[-3000:] + self.cuda.stderr)
        self.assertEqual(self.virtual.returncode, 0, self.virtual.stdout[-3000:] + self.virtual.stderr)
        names = [v["name"] for t in self.report["trials"] for v in t["verdicts"] if v["status"] == "pass"]
        for kind in ("memory/replay/active/", "saving/", "parity/baseline/", "bracket/requested/"):
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
        virtual = read(self.folder / "virtual")
        self.assertNotIn("sharing", virtual["run"]["device"])

    def test_each_has_its_part_of_a_shared_gpu(self):
        words = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--schedule", "instant", "--history", "off", "--capacity", 120 << 20]
        self.passes(*words, "--out", "alone")
        shared = self.tidemark(*words, "--out", "shared", rehearsed=True)
        self.assertEqual(shared.returncode, 3, shared.stdout)
        self.assertIn("54 MiB allowed", shared.stdout)

    def test_ranks_that_stand_still_are_ended(self):
        _, said = self.stuck.communicate(timeout=200)
        self.assertEqual(self.stuck.returncode, 3, said)
        self.assertRegex(said, r"error: rank \d: has not got any further for 31 s \(--timeout\): in the warm-up of fsdp_prefetch")

        self.assertIn("broken_nccl: ncclCommAbort in process", said)

    def test_a_broken_network_ends_the_run_at_once(self):
        # Rank 0 stands still, and rank 1 waits for it in a collective, or to say what it threw: for eleven minutes otherwise.
        for name, rank_1, more in (("aborts", "throw", {}), ("abort-hangs", "slow", {"HANGING_ABORT": "1"})):
            begin = time.monotonic()
            broken = self.tidemark("run", CASES[0], "--ranks", 2, "--schedule", "device", "--history", "off", "--out", name,
                         rehearsed=True, LD_PRELOAD=BROKEN_NCCL, BROKEN_NCCL="2",
                         TIDEMARK_FAULT=f"rank=0 call=all_gather nth=3 do=hang; rank=1 call=all_gather nth=3 do={rank_1}", **more)
            self.assertLess(time.monotonic() - begin, 60)
            self.assertEqual(broken.returncode, 3, broken.stderr)
            errors = [line for line in broken.stderr.splitlines() if line.startswith("error: rank")]
            self.assertEqual(len(errors), 1, broken.stderr)
            self.assertRegex(errors[0], r"error: rank \d: communicator \d of 2 ranks: remote process exited or there was a network error.*: in the warm-up of fsdp_prefetch")
            self.assertIn("broken_nccl: ncclCommAbort in process", broken.stderr)
            ended = read(self.folder / name)["trials"][0]["variants"][0]["error"]
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
        held = self.passes("compare", "cuda", "virtual", "--events")
        counts = re.search(r"^(\d+) traces of (\d+) events equal, 0 different, 0 skipped, 0 in one alone$", held.stdout, re.M)
        self.assertIsNotNone(counts, held.stdout)
        files = list((self.folder / "cuda/allocator").rglob("*.json"))
        self.assertEqual(int(counts[1]), len(files))
        self.assertGreater(len(files), 50)
        self.assertGreater(int(counts[2]), 10000)

    def test_the_numbers_are_the_same_to_the_bit(self):
        held = self.passes("compare", "virtual", "cuda", "--numbers")
        self.assertIn("\nthe same arithmetic: every bit is to be the same\n", held.stdout)
        counts = re.search(r"^(\d+) variants with the same bits, 0 within the model, 0 different, 0 skipped, 0 in one alone$", held.stdout, re.M)
        files = list((self.folder / "cuda/numbers").rglob("*_rank?.safetensors"))
        self.assertEqual(2 * int(counts[1]), len(files))
        self.assertGreater(len(files), 50)

    def test_other_kernels_add_up_in_another_order_and_are_within_the_model(self):
        """The nearest to a GPU that there is here: CPU kernels and a BLAS for another CPU."""
        self.passes("run", *CASES, "--ranks", 2, "--steps", 2, "--schedule", "instant", "--numbers", "--details", "none", "--history", "off",
                   "--races", "off", "--out", "other", ATEN_CPU_CAPABILITY="default", MKL_CBWR="COMPATIBLE")
        held = self.passes("compare", "virtual", "other", "--numbers")
        self.assertIn("|A - R| <= a |R| and |B - R| <= b |R|", held.stdout)
        model = re.search(r"fsdp_prefetch/smoke/r2/math: 1\.32e-05 \(losses (\S+), parameters (\S+)\) from a = 6\.61e-06, b = 6\.61e-06 "
                          r"and conditions (\S+) of losses, (\S+) of parameters: u \(4 layers", held.stdout)
        self.assertIsNotNone(model, held.stdout)
        losses, parameters, *conditions = map(float, model.groups())
        for tolerance, condition in zip((losses, parameters), conditions):
            each = 6.61e-06 * condition
            self.assertAlmostEqual(tolerance, 2 * each / (1 - each), delta=0.01 * tolerance)  # the figures have three digits
        self.assertRegex(held.stdout, r"stash: within the model on 2 ranks: worst \w+ of \S+ on rank \d: \S+e-0[678] of 1\.32e-05, \d+ ULP at element \d+")
        self.assertRegex(held.stdout, r"(?m)^\d+ variants with the same bits, [1-9]\d* within the model, 0 different, 0 skipped, ")

    def test_fp32_is_fp32(self):
        self.assertIn("TF32 off, products of 16-bit numbers added up in fp32, by PyTorch's CPU kernels", self.report["run"]["device"]["arithmetic"])
        words = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--schedule", "instant", "--history", "off", "--out"]
        self.passes(*words, "asked", rehearsed=True, TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1")
        said = json.loads((self.folder / "asked/report.json").read_text())["run"]
        self.assertIn("TF32 off", said["device"]["arithmetic"])
        self.assertEqual(said["env"]["TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"], "1")
        forced = self.tidemark(*words, "forced", rehearsed=True, NVIDIA_TF32_OVERRIDE="1")
        self.assertEqual(forced.returncode, 2, forced.stdout + forced.stderr)
        self.assertIn("error: NVIDIA_TF32_OVERRIDE=1 has NVIDIA's libraries round fp32 to TF32", forced.stderr)

    def test_bad_input_is_one_line(self):
        (self.folder / "empty").mkdir(exist_ok=True)
        for words in (["cuda", "empty"], ["cuda"], ["cuda", "nowhere.json"], ["cuda", "cuda/report.json"], ["cuda", "virtual", "--threshold", "time=5%"]):
            for flag in ("--events", "--numbers"):
                self.refuses(2, "error: ", "compare", *words, flag)
        self.refuses(2, "give one of them", "compare cuda virtual --events --numbers")
        no_numbers = "--numbers: none of these trials computes numbers"
        self.refuses(2, no_numbers, "run", CASES[0], "--numbers --mode shapes")
        self.refuses(2, no_numbers, "run", CASES[0], "--mode shapes --device virtual", TIDEMARK_NUMBERS="1")


class Measured(InFolder):
    """What `tidemark gpu recording` keeps, and the test that holds the virtual platform against it."""

    def test_a_recording_is_held_and_a_changed_one_fails(self):
        self.passes("run", "fsdp_prefetch/stash/smoke", "--ranks", 2, "--steps", 2, "--mode", "shapes", "--schedule", "lagging",
                   "--gpu", "h200-141g", "--events", "--details", "none", "--history", "off", "--out", "run", rehearsed=True)
        folder = self.folder / "measured"
        (folder / "h200-141g").mkdir(parents=True)

        def held(*flags):
            return subprocess.run([sys.executable, MEASURED_TEST, BINARY, folder, *flags], capture_output=True, text=True)

        nothing = held()
        self.assertEqual(nothing.returncode, 77, nothing.stdout)
        self.assertIn("no recording", nothing.stdout)
        recording = folder / "h200-141g" / "run.json.xz"
        data = json.loads(self.passes("gpu", "recording", "run").stdout)

        def keep(**changed):
            recording.write_bytes(lzma.compress(json.dumps({**data, **changed}).encode()))

        keep()
        refused = held()
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("which is no GPU", refused.stdout)
        equal = held("--rehearsal")
        self.assertEqual(equal.returncode, 0, equal.stdout + equal.stderr)
        self.assertIn("4 traces of ", equal.stdout)
        data["traces"][0]["variants"][0]["ranks"][0]["events"][1]["bytes"][3] += 512
        keep()
        changed = held("--rehearsal")
        self.assertEqual(changed.returncode, 1, changed.stdout)
        self.assertRegex(changed.stdout, r"event \d+: ")
        # Of another GPU: its multiprocessors decide temporaries, its memory does not.
        keep(traces=[])
        self.assertEqual(held("--rehearsal").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
