"""The command as a user meets it: exit codes, one line a mistake, the output folder, two runs byte for byte, and no hang."""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from command import BINARY, ROOT, drawn, environment, passes, read, refuses, tidemark


def test_alone_it_prints_help():
    alone = passes("")
    assert "exit codes of run: 0 all verdicts pass" in alone.stdout
    assert alone.stderr == ""


def test_it_lists_what_there_is():
    scenarios = json.loads(passes("list --json").stdout)
    assert scenarios
    for scenario in scenarios:
        assert scenario["sizes"]
        assert {"baseline", "fixed"} <= {variant["role"] for variant in scenario["variants"]}
    assert scenarios[0]["name"] in tidemark("list").stdout


# holds: README.md, The suite
def test_the_documents_table_is_the_codes():
    table = passes("list --markdown").stdout
    assert table.count("\n") > 2
    assert table in (ROOT / "docs" / "scenarios.md").read_text()


# holds: README.md, The suite
def test_a_mistake_is_one_line_and_its_code():
    Path("file").write_text("x")
    Path("full").mkdir()
    Path("full", "x").write_text("x")
    for line, code, says in drawn((
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
            ("report nosuch", 2, "nosuch"))):
        refuses(code, says, line)
    refuses(2, "error: TIDEMARK_PLACEMENT=up: expected linux, wsl2, wsl2:FIRST,SECOND (even MiB) or ascending\n", "run fsdp_prefetch/stash", TIDEMARK_PLACEMENT="up")
    assert not Path("tidemark-out").exists(), "a mistake left a folder"


def test_the_help_of_a_command_is_its_own():
    for command, says in (("bench", "--benchmark_filter=REGEX"), ("exec", "exit codes: that of PROGRAM"), ("run", "1 a verdict failed")):
        assert says in passes(command + " --help").stdout
    for command in ("list", "gpu recording", "exec", "bench", "history"):
        assert "a verdict failed" not in tidemark(command + " --help").stdout, command


def test_help_fits_80_columns_and_has_its_other_names():
    for command in drawn(("", "list", "run", "bench", "exec", "fit", "advise", "bisect", "compare", "compare losses", "history", "report", "snapshot", "snapshot show", "gpu recording", "completion", "open")):
        output = passes(command + " --help").stdout
        assert [line for line in output.splitlines() if len(line) > 80] == [], command
    assert passes("help").stdout == passes("--help").stdout
    assert passes("help exec").stdout == passes("exec --help").stdout
    for word in ("version", "-V"):
        assert passes(word).stdout == passes("--version").stdout
    refuses(2, "nosuch", "nosuch --help")
    for command in ("run", "exec", "fit", "list"):
        assert "example" in passes(command + " --help").stdout


def test_bash_completes_commands_and_flags():
    script = passes("completion bash").stdout
    tool = Path("bin")
    tool.mkdir()
    (tool / "tidemark").symlink_to(BINARY)
    for words, wanted in (("his", ["history"]), ("comp", ["compare", "completion"]), ("exec --max", ["--max-peak"])):
        typed = ["tidemark", *words.split()]
        asked = f"{script}\nCOMP_WORDS=({' '.join(typed)}) COMP_CWORD={len(typed) - 1}\n_tidemark\necho \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, env={**environment(), "PATH": f"{tool.absolute()}:{os.environ['PATH']}"})
        assert sorted(done.stdout.split()) == wanted
    refuses(2, "bash", "completion tcsh")


def test_what_cannot_be_printed_is_no_success():
    for words in (["list"], ["list", "--json"], ["--version"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=environment())
        assert (done.returncode, done.stderr.count("\n")) == (3, 1), f"{words}: {done.stderr}"
        assert "No space left on device" in done.stderr


def test_help_whose_reader_has_ended_complains_of_nothing():
    for command in ("run", "exec", "fit", "compare", "snapshot show", "list"):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([BINARY, *command.split(), "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, env=environment())
        os.close(writer)
        assert (done.returncode, done.stderr) == (-signal.SIGPIPE, ""), command


def test_without_a_driver_cuda_is_skipped():
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has a driver")
    refuses(77, "", "run --device cuda")


# night: a scenario twice; repetitions hold its records by day
def test_two_runs_leave_the_same_bytes():
    line = "run fsdp_prefetch/stash --ranks 2 --out "
    first = passes(line + "a")
    passes(line + "b", launcher=("setarch", "-R"))
    a, b = (json.loads(Path(name, "report.json").read_text()) for name in "ab")
    assert a.pop("run")["id"] != b.pop("run")["id"]
    assert json.dumps(a) == json.dumps(b), "the reports differ outside `run`"
    assert a["summary"]["passed"] > 0
    for name in ("report.html", "junit.xml", "summary.md", "benchmark.json"):
        assert Path("a", name).stat().st_size > 100, name
    assert re.search(r"\n\d+ trials finished; [\d,]+ verdicts passed, 0 failed, \d+ skipped\n(All [\d,]+ verdicts passed\n)?report: a/report.html\n\Z", first.stdout), first.stdout
    assert [os.readlink(name) for name in ("latest", "latest-good")] == ["b", "b"]


def verdicts(out):
    return [verdict for trial in read(out)["trials"] for verdict in trial["verdicts"]]


def test_repetitions_leave_the_same_record():
    for schedule in drawn(("instant", "calibrated", "lagging"), 3):
        passes(f"run fsdp_prefetch/stash --size smoke --ranks 2 --schedule {schedule} --repetitions 3 --mode math --out {schedule}")
        repetitions = sum(len(verdict["ranks"]) for verdict in verdicts(schedule) if verdict["name"] == "parity/repetition")
        assert repetitions == 2  # comparisons of three runs


# night: repeats the shapes of a rank of 64; test_repetitions_leave_the_same_record holds repetitions by day
def test_repetitions_poll_the_same_events():
    """Freed blocks wait for several streams there. The allocator polls them in an order that follows from their numbers, and autograd's thread
    polls before it enqueues anything."""
    common = "--size smoke --mode shapes --steps 2 --as-rank 0 --repetitions 4 --out"
    passes(f"run frozen_reshard/multi_grad_hook --ranks 2 --set layout=flat --set no_sync=none --schedule lagging {common} a")
    passes("run fsdp_prefetch/record_stream --ranks 64 --set layers=17 --set hidden=3333 --set batch=64 --set precision=mixed "
           f"--set reshard_after_forward=no --schedule calibrated {common} b")


def test_settings_of_the_allocator_leave_requested_bytes():
    """The model of the allocator has its default settings: of others requested bytes alone are claimed."""
    for settings in drawn(("max_split_size_mb:21", "expandable_segments:True", "roundup_power2_divisions:4", "large_segment_size_mb:30",
                           "per_process_memory_fraction:0.9,garbage_collection_threshold:0.1"), 5):
        passes("run ddp_bucket_view tp_buffer_reuse/no_recompute --size seed --ranks 2 --as-rank 1 --steps 2 --schedule lagging --set layers=2 "
               f"--races off --details none --capacity 80GB --alloc-conf {settings} --out {settings}")
        all_verdicts = verdicts(settings)
        skipped = [v for v in all_verdicts if v["name"] == "memory/settings" and v["why"].startswith("PYTORCH_ALLOC_CONF=" + settings)]
        assert len(skipped) == 3 + 1, settings
        assert sum(v["name"].startswith("memory/form/requested/") for v in all_verdicts) > 20, settings
        assert not [v for v in all_verdicts if v["name"].startswith("memory/replay/reserved/")], settings
    # What changes nothing of that leaves all verdicts.
    passes("run ddp_bucket_view --size smoke --as-rank 0 --ranks 2 --schedule instant --alloc-conf garbage_collection_threshold:0.5 --out inert")
    names = {verdict["name"] for verdict in verdicts("inert")}
    assert any(name.startswith("memory/replay/reserved/") for name in names)
    assert "memory/settings" not in names


def test_wrong_settings_of_the_allocator_are_one_line():
    for settings in drawn(("nonsense", "max_split_size_mb:x", "max_split_size_mb:5", "backend:cudaMallocAsync", ",", "pinned_use_background_threads:True"), 6):
        for flag, more in (("", {"PYTORCH_ALLOC_CONF": settings}), ("", {"PYTORCH_CUDA_ALLOC_CONF": settings}), (" --alloc-conf " + settings, {})):
            done = tidemark("run ddp_bucket_view --size smoke --ranks 1" + flag, **more)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
            assert done.stderr.startswith("error: --alloc-conf " + settings), done.stderr
            assert "report a bug" not in done.stderr


def test_a_run_needs_no_temporary_folder():
    passes("run ddp_bucket_view --size smoke --ranks 1 --out a", TMPDIR=os.path.abspath("nosuch"))


# night: every scenario on four ranks; the random tests run each of them by day
def test_every_scenario_passes_beside_the_others():
    """One process runs them all, one after the other: none may depend on what ran before."""
    passes("run 'fsdp_prefetch/*/smoke' 'tp_buffer_reuse/*/losses' 'frozen_reshard/*/losses' 'zero_bubble_detach/*/losses' --steps 2 --mode math "
           "--schedule instant --races off --details none --ranks 4 --timeout 60 --out a")
    trials = read("a")["trials"]
    for trial in trials:
        left_out = {verdict["variant"] for verdict in trial["verdicts"] if verdict["name"] == "run" and verdict["status"] == "skip"}
        assert len(left_out) < len(trial["variants"]) / 2
        for variant in trial["variants"]:
            if variant["role"] != "control" and variant["name"] not in left_out:  # some controls end in the failure that catches them
                assert len(variant["ranks"]) == 4, f"{trial['scenario']} {variant['name']}"
    assert len(trials) >= 4


# night: five runs under mpirun; other_mpi_test has the ranks of an mpirun by day
def test_under_another_launcher_the_flags_count_too():
    """Under another mpirun the ranks make the settings that the launching process would make."""
    mpirun = ("mpirun", "--oversubscribe", "-n", "2")
    passes("run fsdp_prefetch/stash --size smoke --schedule instant --alloc-conf expandable_segments:True --capacity 5000000000 --gpu a100-40g "
           "--timeout 60 --out a", launcher=mpirun)
    facts = read("a")["run"]
    assert (facts["device"]["profile"], facts["device"]["capacity_bytes"]) == ("a100-40g", 5000000000)
    assert (facts["env"]["PYTORCH_ALLOC_CONF"], facts["env"]["TIDEMARK_TIMEOUT"]) == ("expandable_segments:True", "60")
    for line, code, says in (("run 'nosuch*'", 4, "error: nothing matches"), ("run fsdp_prefetch --ranks 3", 2, "the launcher started only 2"),
                             ("run fsdp_prefetch --out a", 2, "never overwrites")):
        done = tidemark(line, launcher=mpirun)
        assert done.returncode == code, line
        assert says in done.stderr, line
    assert "fsdp_prefetch/smoke/r2/math/instant" in passes("run fsdp_prefetch --dry-run", launcher=mpirun).stdout


def test_every_flag_has_an_environment_twin():
    plan = passes("run fsdp_prefetch --dry-run", TIDEMARK_RANKS="3", TIDEMARK_SCHEDULE="lagging", TIDEMARK_SEED="5").stdout
    assert "/r3/" in plan
    assert "lagging" in plan
    assert "instant" not in plan
