"""The command as it runs on a GPU, rehearsed on the virtual device, and compared with the virtual device: the same events of
the allocator at both ends of the bracket, the same calls of the host in between, the same numbers to the bit. The
library of BROKEN_NCCL_LIBRARY is loaded before NCCL, and is it on a broken network."""
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from command import BINARY, CASES, environment, passes, read, refuses, run, tidemark

BROKEN_NCCL = os.environ["BROKEN_NCCL_LIBRARY"]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """The tests share a folder, in which a run of each kind is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("rehearsal"))
        yield


@pytest.fixture(scope="module")
def stuck(folder):
    """Every rank stands still outside of NCCL, and a GPU would not show it. It takes its time, so it goes on beside the rest."""
    faults = "rank=0 call=all_gather nth=3 do=hang; rank=1 call=all_gather nth=3 do=hang"
    return subprocess.Popen([BINARY, "run", CASES[0], "--ranks", "2", "--timeout", "1", "--schedule", "device", "--history", "off", "--out", "stuck"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env=environment(True, LD_PRELOAD=BROKEN_NCCL, TIDEMARK_FAULT=faults))


@pytest.fixture(scope="module", autouse=True)
def runs(stuck):
    common = ["run", *CASES, "--ranks", 2, "--steps", 2, "--events", "--numbers", "--details", "none", "--history", "off", "--schedule", "all"]
    return run(*common, "--repetitions", 3, "--out", "cuda", rehearsed=True), run(*common, "--races", "off", "--out", "virtual")


@pytest.fixture(scope="module")
def report(runs):
    return read("cuda")


def trials(report, schedule):
    return [t for t in report["trials"] if t["schedule"] == schedule]


def test_every_closed_form_holds_as_on_a_gpu(runs, report):
    for done in runs:
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    names = [v["name"] for t in report["trials"] for v in t["verdicts"] if v["status"] == "pass"]
    for kind in ("memory/replay/active/", "saving/", "parity/baseline/", "bracket/requested/"):
        assert any(name.startswith(kind) for name in names), kind


def test_it_cannot_pass_for_hardware(report):
    device = report["run"]["device"]
    assert device["kind"] == "cuda"
    assert device["profile"] == "rehearsal on the virtual device h100-80g"
    assert "rehearsal on the virtual device" in Path("cuda/summary.md").read_text()


def test_nothing_was_left_unheld(report):
    ranks = [r for t in trials(report, "lagging") for v in t["variants"] for r in v["ranks"]]
    assert ranks
    assert [r["unheld"] for r in ranks if "unheld" in r] == []


def test_ranks_that_share_a_gpu_say_so(runs, report):
    note = "ranks 0, 1 on one GPU: each with its part of 90 % of the memory, and a NCCL_HOSTID of its own"
    assert report["run"]["device"]["sharing"] == note
    assert note in runs[0].stderr
    assert "ranks 0, 1 on one GPU" in Path("cuda/summary.md").read_text()
    assert "sharing" not in read("virtual")["run"]["device"]


def test_each_has_its_part_of_a_shared_gpu():
    words = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--schedule", "instant", "--history", "off", "--capacity", 120 << 20]
    passes(*words, "--out", "alone")
    shared = tidemark(*words, "--out", "shared", rehearsed=True)
    assert shared.returncode == 3, shared.stdout
    assert "54 MiB allowed" in shared.stdout


def test_a_broken_network_ends_the_run_at_once():
    # Rank 0 stands still, and rank 1 waits for it in a collective, or to say what it threw: for eleven minutes otherwise.
    for name, rank_1, more in (("aborts", "throw", {}), ("abort-hangs", "slow", {"HANGING_ABORT": "1"})):
        begin = time.monotonic()
        broken = tidemark("run", CASES[0], "--ranks", 2, "--schedule", "device", "--history", "off", "--out", name,
                          rehearsed=True, LD_PRELOAD=BROKEN_NCCL, BROKEN_NCCL="2",
                          TIDEMARK_FAULT=f"rank=0 call=all_gather nth=3 do=hang; rank=1 call=all_gather nth=3 do={rank_1}", **more)
        assert time.monotonic() - begin < 60
        assert broken.returncode == 3, broken.stderr
        errors = [line for line in broken.stderr.splitlines() if line.startswith("error: rank")]
        assert len(errors) == 1, broken.stderr
        assert re.search(r"error: rank \d: communicator \d of 2 ranks: remote process exited or there was a network error.*: in the warm-up of fsdp_prefetch", errors[0])
        assert "broken_nccl: ncclCommAbort in process" in broken.stderr
        ended = read(name)["trials"][0]["variants"][0]["error"]
        assert (", where it threw: injected fault in all_gather 3" in ended) == (rank_1 == "throw"), ended


def test_step_times_are_those_of_the_devices_own_time(report):
    for trial in trials(report, "device"):
        variants = {v["name"]: v for v in trial["variants"]}
        for variant in variants.values():
            timing = variant["timing"]
            assert (timing["repetitions"], timing["samples"]) == (3, 3)
            assert 0 < timing["low_ns"] <= timing["median_ns"] <= timing["high_ns"]
            assert timing["ratio"]["lowest"] > 0
        base = next(v for v in trial["variants"] if v["role"] == "baseline")
        assert base["timing"]["ratio"] == {"median": 1, "lowest": 1, "highest": 1}
    for schedule in ("instant", "lagging"):
        for trial in trials(report, schedule):
            assert all(v["step_time_ns"] == [] and "timing" not in v for v in trial["variants"])
    for one in json.loads(Path("cuda/benchmark.json").read_text())["benchmarks"]:
        assert one["real_time"] > 0 and not one.get("error_occurred", False), one["name"]  # that of the trial under device, beside the others
    assert "3 repetitions in turns" in Path("cuda/summary.md").read_text()


def test_what_the_allocator_does_not_see_has_its_line(report):
    for trial in report["trials"]:
        for variant in trial["variants"]:
            assert all(r["outside_allocator"] >= 0 for r in variant["ranks"])
            # Each process has a virtual device of its own: all that is taken of it is this process's.
            for rank in variant["ranks"]:
                assert rank["outside_owners"] == {"own": rank["outside_allocator"], "others": 0, "driver": 0}
    assert re.search(r"By NVML under device \(this process [^)]*\), bytes: rank 0: [\d,]+ / 0 / 0; rank 1: ", Path("cuda/summary.md").read_text())
    assert "outside_owners" not in Path("virtual/report.json").read_text()


def test_the_virtual_device_does_what_was_done_here():
    comparison = passes("compare", "cuda", "virtual", "--events")
    counts = re.search(r"^(\d+) traces of (\d+) events equal, 0 different, 0 skipped, 0 in one alone$", comparison.stdout, re.M)
    assert counts, comparison.stdout
    files = list(Path("cuda/allocator").rglob("*.json"))
    assert int(counts[1]) == len(files)
    assert len(files) > 50
    assert int(counts[2]) > 10000


def test_the_numbers_are_the_same_to_the_bit():
    comparison = passes("compare", "virtual", "cuda", "--numbers")
    assert "\nthe same arithmetic: every bit is to be the same\n" in comparison.stdout
    counts = re.search(r"^(\d+) variants with the same bits, 0 within the model, 0 different, 0 skipped, 0 in one alone$", comparison.stdout, re.M)
    files = list(Path("cuda/numbers").rglob("*_rank?.safetensors"))
    assert 2 * int(counts[1]) == len(files)
    assert len(files) > 50


def test_other_kernels_add_up_in_another_order_and_are_within_the_model():
    """The nearest to a GPU that there is here: CPU kernels and a BLAS for another CPU."""
    passes("run", *CASES, "--ranks", 2, "--steps", 2, "--schedule", "instant", "--numbers", "--details", "none", "--history", "off",
           "--races", "off", "--out", "other", ATEN_CPU_CAPABILITY="default", MKL_CBWR="COMPATIBLE")
    comparison = passes("compare", "virtual", "other", "--numbers")
    assert "|A - R| <= a |R| and |B - R| <= b |R|" in comparison.stdout
    model = re.search(r"fsdp_prefetch/smoke/r2/math: \S+ \(losses (\S+), parameters (\S+)\) from a = (\S+), b = (\S+) "
                      r"and conditions (\S+) of losses, (\S+) of parameters: 6 times what 3 trainings in double precision are off by", comparison.stdout)
    assert model, comparison.stdout
    losses, parameters, a, b, *conditions = map(float, model.groups())
    assert a == b  # both sides are fp32
    for tolerance, condition in zip((losses, parameters), conditions):
        each = a * condition
        assert abs(tolerance - 2 * each / (1 - each)) <= 0.01 * tolerance  # the figures have three digits
    assert re.search(r"stash: within the model on 2 ranks: worst \w+ of \S+ on rank \d: \S+e-0[678] of \S+e-0[56], \d+ ULP at element \d+", comparison.stdout), comparison.stdout
    assert re.search(r"(?m)^\d+ variants with the same bits, [1-9]\d* within the model, 0 different, 0 skipped, ", comparison.stdout), comparison.stdout


def test_fp32_is_fp32(report):
    assert "TF32 off, products of 16-bit numbers added up in fp32, by PyTorch's CPU kernels" in report["run"]["device"]["arithmetic"]
    words = ["run", CASES[0], "--ranks", 2, "--steps", 2, "--schedule", "instant", "--history", "off", "--out"]
    passes(*words, "asked", rehearsed=True, TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1")
    run_record = json.loads(Path("asked/report.json").read_text())["run"]
    assert "TF32 off" in run_record["device"]["arithmetic"]
    assert run_record["env"]["TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"] == "1"
    forced = tidemark(*words, "forced", rehearsed=True, NVIDIA_TF32_OVERRIDE="1")
    assert forced.returncode == 2, forced.stdout + forced.stderr
    assert "error: NVIDIA_TF32_OVERRIDE=1 has NVIDIA's libraries round fp32 to TF32" in forced.stderr


def test_bad_input_is_one_line():
    Path("empty").mkdir(exist_ok=True)
    for words in (["cuda", "empty"], ["cuda"], ["cuda", "nowhere.json"], ["cuda", "cuda/report.json"], ["cuda", "virtual", "--threshold", "time=5%"]):
        for flag in ("--events", "--numbers"):
            refuses(2, "error: ", "compare", *words, flag)
    refuses(2, "give one of them", "compare cuda virtual --events --numbers")
    no_numbers = "--numbers: none of these trials computes numbers"
    refuses(2, no_numbers, "run", CASES[0], "--numbers --mode shapes")
    refuses(2, no_numbers, "run", CASES[0], "--mode shapes --device virtual", TIDEMARK_NUMBERS="1")


def test_ranks_that_stand_still_are_ended(stuck):
    _, output = stuck.communicate(timeout=200)
    assert stuck.returncode == 3, output
    assert re.search(r"error: rank \d: has not got any further for 31 s \(--timeout\): in the warm-up of fsdp_prefetch", output), output
    assert "broken_nccl: ncclCommAbort in process" in output
