#!/usr/bin/env python3
"""cli_test.py TIDEMARK: the command as a user meets it: exit codes, one line a mistake, the output folder, two runs byte for byte, and no hang."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from command import BINARY, InFolder, environment, read

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


class Cli(InFolder):
    def test_alone_it_prints_help(self):
        alone = self.passes("")
        self.assertIn("exit codes of run: 0 all verdicts pass", alone.stdout)
        self.assertEqual(alone.stderr, "")

    def test_it_lists_what_there_is(self):
        scenarios = json.loads(self.passes("list --json").stdout)
        self.assertTrue(scenarios)
        for scenario in scenarios:
            self.assertTrue(scenario["sizes"])
            self.assertLessEqual({"baseline", "fixed"}, {variant["role"] for variant in scenario["variants"]})
        self.assertIn(scenarios[0]["name"], self.tidemark("list").stdout)

    def test_the_readmes_table_is_the_codes(self):
        table = self.passes("list --markdown").stdout
        self.assertGreater(table.count("\n"), 2)
        self.assertIn(table, README.read_text())

    def test_a_mistake_is_one_line_and_its_code(self):
        (self.folder / "file").write_text("x")
        (self.folder / "full").mkdir()
        (self.folder / "full" / "x").write_text("x")
        for line, code, says in (
                ("frobnicate", 2, "frobnicate"),
                ("runn", 2, "did you mean run?"),
                ("run --rank 4", 2, "did you mean --ranks?"),
                ("run --frobnicate", 2, "--frobnicate"),
                ("run nosuch", 2, "unknown scenario 'nosuch' (there are: "),
                ("run 'nosuch*'", 4, "nothing matches"),
                ("compare nosuch file", 2, "cannot be read"),
                ("compare losses nosuch file", 2, "cannot be read"),
                ("history nosuch", 2, "has no history"),
                ("snapshot show file", 2, "is neither a pickle"),
                ("run --ranks 0x", 2, "--ranks"),
                ("run --gpu nosuch", 2, "there are: a100-40g"),
                ("run --capacity lots", 2, "--capacity lots"),
                ("run fsdp_prefetch --mode math --set hidden=2", 2, "a norm of so few elements"),
                ("run ddp_bucket_view --mode math --set hidden=1", 2, "a norm of so few elements"),
                ("run zero_bubble_detach --size smoke --mode math --set sequence=1", 2, "sequence=1: a token that attends to itself alone"),
                ("run fsdp_prefetch --out ''", 2, "--out: is empty; name a folder"),
                ("run --alloc-conf nosuch:1", 2, "--alloc-conf nosuch:1: Unrecognized key"),
                ("run --device quantum", 2, "auto, virtual, cuda"),
                ("run --timeout 0", 2, "--timeout"),
                ("run --out file", 2, "is not a folder"),
                ("run --out full", 2, "never overwrites"), ("run --out full --force", 2, "there is no report.json"), ("run --out . --force", 2, "does not empty the current folder"),
                ("run --out /proc/nosuch", 2, "cannot be made"),
                ("report nosuch", 2, "nosuch")):
            with self.subTest(line):
                self.refuses(code, says, line)
        self.refuses(2, "error: TIDEMARK_PLACEMENT=up: expected linux, wsl2, wsl2:FIRST,SECOND (even MiB) or ascending\n", "run fsdp_prefetch/stash", TIDEMARK_PLACEMENT="up")
        self.assertFalse((self.folder / "tidemark-out").exists(), "a mistake left a folder")

    def test_the_help_of_a_command_is_its_own(self):
        for command, says in (("bench", "usage: tidemark bench"), ("exec", "exit codes: that of PROGRAM"), ("run", "1 a verdict failed")):
            self.assertIn(says, self.passes(command + " --help").stdout)
        for command in ("list", "gpu recording", "exec", "bench", "history"):
            self.assertNotIn("a verdict failed", self.tidemark(command + " --help").stdout, command)

    def test_help_fits_80_columns_and_has_its_other_names(self):
        for command in ("", "list", "run", "exec", "fit", "advise", "compare", "compare losses", "history", "report", "snapshot", "snapshot show", "gpu recording", "completion", "open"):
            said = self.passes(command + " --help").stdout
            self.assertEqual([line for line in said.splitlines() if len(line) > 80], [], command)
        self.assertEqual(self.passes("help").stdout, self.passes("--help").stdout)
        self.assertEqual(self.passes("help exec").stdout, self.passes("exec --help").stdout)
        for word in ("version", "-V"):
            self.assertEqual(self.passes(word).stdout, self.passes("--version").stdout)
        self.refuses(2, "nosuch", "nosuch --help")
        for command in ("run", "exec", "fit", "list"):
            self.assertIn("example", self.passes(command + " --help").stdout)

    def test_bash_completes_commands_and_flags(self):
        script = self.passes("completion bash").stdout
        tool = self.folder / "bin"
        tool.mkdir()
        (tool / "tidemark").symlink_to(BINARY)
        for words, wanted in (("his", ["history"]), ("comp", ["compare", "completion"]), ("exec --max", ["--max-peak"])):
            typed = ["tidemark", *words.split()]
            asked = f"{script}\nCOMP_WORDS=({' '.join(typed)}) COMP_CWORD={len(typed) - 1}\n_tidemark\necho \"${{COMPREPLY[@]}}\""
            done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, env={**environment(), "PATH": f"{tool}:{os.environ['PATH']}"})
            self.assertEqual(sorted(done.stdout.split()), wanted)
        self.refuses(2, "bash", "completion tcsh")

    def test_what_cannot_be_printed_is_no_success(self):
        for words in (["list"], ["list", "--json"], ["--version"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *words], stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=environment())
            self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), f"{words}: {done.stderr}")
            self.assertIn("No space left on device", done.stderr)

    def test_without_a_driver_cuda_is_skipped(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a driver")
        self.refuses(77, "", "run --device cuda")

    def test_two_runs_leave_the_same_bytes(self):
        line = "run fsdp_prefetch/stash --ranks 2 --out "
        first = self.passes(line + "a")
        self.passes(line + "b", launcher=("setarch", "-R"))
        a, b = (json.loads((self.folder / name / "report.json").read_text()) for name in "ab")
        self.assertNotEqual(a.pop("run")["id"], b.pop("run")["id"])
        self.assertTrue(json.dumps(a) == json.dumps(b), "the reports differ outside `run`")
        self.assertGreater(a["summary"]["passed"], 0)
        for name in ("report.html", "junit.xml", "summary.md", "benchmark.json"):
            self.assertGreater((self.folder / "a" / name).stat().st_size, 100, name)
        self.assertRegex(first.stdout, r"\n\d+ trials finished; [\d,]+ verdicts passed, 0 failed, \d+ skipped\n(All [\d,]+ verdicts passed\n)?report: a/report.html\n\Z")
        self.assertEqual([os.readlink(self.folder / name) for name in ("latest", "latest-good")], ["b", "b"])

    def verdicts(self, out):
        return [verdict for trial in read(self.folder / out)["trials"] for verdict in trial["verdicts"]]

    def test_repetitions_leave_the_same_record(self):
        self.passes("run fsdp_prefetch/stash --size smoke --ranks 2 --repetitions 3 --out a --mode math")
        repetitions = sum(len(verdict["ranks"]) for verdict in self.verdicts("a") if verdict["name"] == "parity/repetition")
        self.assertEqual(repetitions, 2 * 3)  # two comparisons in each of three schedules

    def test_repetitions_poll_the_same_events(self):
        """Freed blocks wait for several streams there. The allocator polls them in an order that follows from their numbers, and autograd's thread
        polls before it enqueues anything."""
        common = "--size smoke --mode shapes --steps 2 --as-rank 0 --repetitions 4 --out"
        self.passes(f"run frozen_reshard/multi_grad_hook --ranks 2 --set layout=flat --set no_sync=none --schedule lagging {common} a")
        self.passes("run fsdp_prefetch/record_stream --ranks 64 --set layers=17 --set hidden=3333 --set batch=64 --set precision=mixed "
                    f"--set reshard_after_forward=no --schedule calibrated {common} b")

    def test_settings_of_the_allocator_leave_requested_bytes(self):
        """The model of the allocator has its default settings: of others requested bytes alone are claimed."""
        for settings in ("max_split_size_mb:21", "expandable_segments:True", "roundup_power2_divisions:4", "large_segment_size_mb:30",
                         "per_process_memory_fraction:0.9,garbage_collection_threshold:0.1"):
            self.passes("run ddp_bucket_view tp_buffer_reuse/no_recompute --size seed --ranks 2 --as-rank 1 --steps 2 --schedule lagging --set layers=2 "
                        f"--races off --details none --capacity 80GB --alloc-conf {settings} --out {settings}")
            found = self.verdicts(settings)
            skipped = [v for v in found if v["name"] == "memory/settings" and v["why"].startswith("PYTORCH_ALLOC_CONF=" + settings)]
            self.assertEqual(len(skipped), 3 + 1, settings)
            self.assertGreater(sum(v["name"].startswith("memory/form/requested/") for v in found), 20, settings)
            self.assertFalse([v for v in found if v["name"].startswith("memory/replay/reserved/")], settings)
        # What changes nothing of that leaves all verdicts.
        self.passes("run ddp_bucket_view --size smoke --as-rank 0 --ranks 2 --schedule instant --alloc-conf garbage_collection_threshold:0.5 --out inert")
        names = {verdict["name"] for verdict in self.verdicts("inert")}
        self.assertTrue(any(name.startswith("memory/replay/reserved/") for name in names))
        self.assertNotIn("memory/settings", names)

    def test_wrong_settings_of_the_allocator_are_one_line(self):
        for settings in ("nonsense", "max_split_size_mb:x", "max_split_size_mb:5", "backend:cudaMallocAsync", ",", "pinned_use_background_threads:True"):
            for flag, more in (("", {"PYTORCH_ALLOC_CONF": settings}), ("", {"PYTORCH_CUDA_ALLOC_CONF": settings}), (" --alloc-conf " + settings, {})):
                with self.subTest(settings, **more):
                    done = self.tidemark("run ddp_bucket_view --size smoke --ranks 1" + flag, **more)
                    self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                    self.assertTrue(done.stderr.startswith("error: --alloc-conf " + settings), done.stderr)
                    self.assertNotIn("report a bug", done.stderr)

    def test_a_run_needs_no_temporary_folder(self):
        self.passes("run ddp_bucket_view --size smoke --ranks 1 --out a", TMPDIR=str(self.folder / "nosuch"))

    def test_every_scenario_passes_beside_the_others(self):
        """One process runs them all, one after the other: none may depend on what ran before."""
        self.passes("run 'fsdp_prefetch/*/smoke' 'tp_buffer_reuse/*/losses' 'frozen_reshard/*/losses' 'zero_bubble_detach/*/losses' --steps 2 --mode math "
                    "--schedule instant --races off --details none --ranks 4 --timeout 60 --out a")
        trials = read(self.folder / "a")["trials"]
        for trial in trials:
            for variant in trial["variants"]:
                if variant["role"] != "control":  # some of these end in the failure that catches them
                    self.assertEqual(len(variant["ranks"]), 4, f"{trial['scenario']} {variant['name']}")
        self.assertGreaterEqual(len(trials), 4)

    def test_under_another_launcher_the_flags_count_too(self):
        """Under another mpirun the ranks make the settings that the launching process would make."""
        mpirun = ("mpirun", "--oversubscribe", "-n", "2")
        self.passes("run fsdp_prefetch/stash --size smoke --schedule instant --alloc-conf expandable_segments:True --capacity 5000000000 --gpu a100-40g "
                    "--timeout 60 --out a", launcher=mpirun)
        facts = read(self.folder / "a")["run"]
        self.assertEqual((facts["device"]["profile"], facts["device"]["capacity_bytes"]), ("a100-40g", 5000000000))
        self.assertEqual((facts["env"]["PYTORCH_ALLOC_CONF"], facts["env"]["TIDEMARK_TIMEOUT"]), ("expandable_segments:True", "60"))
        for line, code, says in (("run 'nosuch*'", 4, "error: nothing matches"), ("run fsdp_prefetch --ranks 3", 2, "the launcher started only 2"),
                                 ("run fsdp_prefetch --out a", 2, "never overwrites")):
            done = self.tidemark(line, launcher=mpirun)
            self.assertEqual(done.returncode, code, line)
            self.assertIn(says, done.stderr, line)
        self.assertIn("fsdp_prefetch/smoke/r2/math/instant", self.passes("run fsdp_prefetch --dry-run", launcher=mpirun).stdout)

    def test_every_flag_has_an_environment_twin(self):
        plan = self.passes("run fsdp_prefetch --dry-run", TIDEMARK_RANKS="3", TIDEMARK_SCHEDULE="lagging", TIDEMARK_SEED="5").stdout
        self.assertIn("/r3/", plan)
        self.assertIn("lagging", plan)
        self.assertNotIn("instant", plan)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
