"""`tidemark bench` of the pairs: its figures are those of a run, its files are read by `tidemark compare` and by Google's rules, and each mistake is
one line."""
import csv
import io
import json
import re
from pathlib import Path

import pytest
from command import drawn, passes, read, refuses, run, tidemark

PAIRS = "fsdp_prefetch/.*/(record_stream|stash)/"
COUNTERS = {"peak_requested", "peak_allocated", "peak_active", "peak_reserved", "saved", "saved_percent", "collectives", "collective_bytes", "retries"}


def benched(*words, **more):
    done = run("bench", *words, "--benchmark_format=json", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def rows(file):
    return {row["name"]: row for row in file["benchmarks"]}


def as_google_reads(file):
    """The reading rule of Google's compare.py: rows that have real_time, cpu_time and time_unit, by name and unit; aggregates apart."""
    return {(row["name"], row["time_unit"], row.get("run_type")): (row["real_time"], row["cpu_time"]) for row in file["benchmarks"]
            if "time_unit" in row and "real_time" in row and "cpu_time" in row}


def of_record(variant):
    """The counters of a variant by its record: of the last step, the highest of its phases and ranks."""
    last = [rank["steps"][-1] for rank in variant["ranks"]]
    peaks = {f"peak_{name}": max(phase[name]["peak"] for step in last for phase in step["phases"]) for name in ("requested", "allocated", "active", "reserved")}
    return {**peaks, "collectives": max(sum(step["collectives"].values()) for step in last), "retries": max(rank["counters"]["num_alloc_retries"] for rank in variant["ranks"])}


# holds: cases/README.md, Measured
def test_a_rank_of_a_job():
    """By default rank 0 of four at size seed, each baseline before its fixes; the figures are those of a run of that rank."""
    file = benched(f"--benchmark_filter={PAIRS}")
    assert list(rows(file)) == [f"fsdp_prefetch/seed/r4/lagging/{variant}/manual_time" for variant in ("record_stream", "stash")]
    assert "rank 0 of 4 alone" in file["context"]["tidemark_ranks"] and "virtual time under schedule calibrated" in file["context"]["tidemark_time"]
    passes("run fsdp_prefetch/stash/seed --ranks 4 --as-rank 0 --schedule all --details none --out out")
    of_run = json.loads(Path("out/benchmark.json").read_text())
    assert set(rows(file)) <= set(rows(of_run))
    (trial,) = (trial for trial in read("out")["trials"] if trial["schedule"] == "lagging")
    for variant in trial["variants"]:
        row = rows(file)[f"fsdp_prefetch/seed/r4/lagging/{variant['name']}/manual_time"]
        for counter, value in of_record(variant).items():
            assert row[counter] == value, (variant["name"], counter)
    for name, row in rows(file).items():
        other = rows(of_run)[name]
        assert COUNTERS <= row.keys() and COUNTERS <= other.keys()
        assert {each: row[each] for each in COUNTERS} == {each: other[each] for each in COUNTERS}, name
        assert row["label"] == other["label"] and row["time_unit"] == other["time_unit"]
        assert row["real_time"] == pytest.approx(other["real_time"], rel=1e-3) and row["real_time"] > 1
        assert row["host_seconds"] > 0
    base, fix = file["benchmarks"]
    assert base["label"] == "baseline" and fix["saved"] == base["peak_active"] - fix["peak_active"] > 20 << 30
    assert re.fullmatch(r"saves [0-9.]+ GiB of active \(80.5 %\)", fix["label"])
    Path("bench.json").write_text(json.dumps(file))
    assert passes("compare bench.json bench.json").stdout.endswith("no difference\n")
    narrow = passes("compare out/benchmark.json bench.json --allow-missing").stdout
    assert "0 regressions" in narrow
    # Two files that Google's script would pair, row by row.
    assert len(as_google_reads(file)) == 2 and as_google_reads(file).keys() <= as_google_reads(of_run).keys()
    fix["peak_active"] += 512
    Path("worse.json").write_text(json.dumps(file))
    worse = tidemark("compare bench.json worse.json")
    assert worse.returncode == 1 and "stash/manual_time: memory/active/peak" in worse.stdout and "(+512" in worse.stdout


# night: the same row five times; test_a_rank_of_a_job reads rows by day
def test_the_library_chooses_how_often():
    """One step by default, as virtual time repeats itself; min_time, repetitions and aggregates as the library has them."""
    words = ("--size", "smoke", "--benchmark_filter=ddp_bucket_view/.*/bucket_view")
    (once,) = benched(*words)["benchmarks"]
    assert once["iterations"] == 1
    step = once["real_time"] * 1e-3
    (long,) = benched(*words, f"--benchmark_min_time={20 * step}")["benchmarks"]
    assert long["iterations"] >= 20 and long["real_time"] == pytest.approx(once["real_time"], rel=0.02)
    many = benched(*words, "--benchmark_repetitions=3")["benchmarks"]
    assert [row.get("aggregate_name", "") for row in many] == ["", "", "", "mean", "median", "stddev", "cv"]
    assert [row["aggregate_name"] for row in benched(*words, "--benchmark_repetitions=3", "--benchmark_report_aggregates_only=true")["benchmarks"]] == [
        "mean", "median", "stddev", "cv"]
    listed = passes("bench --benchmark_list_tests=true").stdout.split()
    assert len(listed) > 20 and not [name for name in listed if "aliased" in name]
    assert listed.index("tp_buffer_reuse/seed/r4/lagging/separate/manual_time") < listed.index("tp_buffer_reuse/seed/r4/lagging/recompute/manual_time")
    table = passes(*map(str, ("bench", *words, "--benchmark_format=csv"))).stdout
    (row,) = csv.DictReader(io.StringIO(table))
    assert COUNTERS <= row.keys() and float(row["peak_requested"]) == pytest.approx(once["peak_requested"], rel=1e-5)


# night: rehearses a GPU; test_a_rank_of_a_job reads rows by day
def test_on_a_gpu():
    """Rehearsed: time by CUDA events, of as many steps as the library wants; memory as on the virtual device."""
    words = ("--size", "smoke", "--benchmark_filter=ddp_bucket_view/.*/bucket_view", "--benchmark_min_time=0.01")
    file = benched(*words, rehearsed=True)
    assert "by CUDA events" in file["context"]["tidemark_time"] and file["context"]["tidemark_device"].startswith("cuda rehearsal")
    (row,), (own,) = file["benchmarks"], benched(*words)["benchmarks"]
    assert row["iterations"] > 1 and row["real_time"] > 0
    assert {each: row[each] for each in COUNTERS} == {each: own[each] for each in COUNTERS}


def test_what_saves_nothing_is_said():
    labels = {row["name"].split("/")[4]: row["label"] for row in benched("--benchmark_filter=zero_bubble_detach/.*/(retained|detach_outputs|hooks_alone)/")["benchmarks"]}
    assert labels["detach_outputs"] == "saves nothing of requested: at its highest the step is as the baseline's"
    assert labels["hooks_alone"].startswith("saves 4.12 GiB of requested")
    (more,) = benched("--size", "smoke", "--set", "precision=bf16", "--benchmark_filter=fsdp.*/two_buffers")["benchmarks"]
    assert (more["saved"] < 0) == more["label"].startswith("needs "), more


def test_ranks():
    """Under a launcher every rank runs, and the figures are those of the rank that has most."""
    words = ("--size", "smoke", "--mode", "math", f"--benchmark_filter={PAIRS}", "--benchmark_min_time=0.002", "--benchmark_out=out.json")
    file = benched(*words, launcher=("mpirun", "-n", "2"))
    assert list(rows(file)) == [f"fsdp_prefetch/smoke/r2/math/lagging/{variant}/manual_time" for variant in ("record_stream", "stash")]
    assert all(row["iterations"] > 1 for row in file["benchmarks"])
    assert rows(json.loads(Path("out.json").read_text())).keys() == rows(file).keys()
    passes("run fsdp_prefetch/stash/smoke --mode math --ranks 2 --schedule lagging --steps 4 --details none --out run")
    of_run = rows(json.loads(Path("run/benchmark.json").read_text()))
    for name, row in rows(file).items():
        assert {each: row[each] for each in COUNTERS} == {each: of_run[name][each] for each in COUNTERS}, name
        assert of_run[name]["label"] == row["label"] + "; not timed: no trial with a clock ran"


# holds: README.md, The suite
def test_mistakes_are_a_line():
    for line, code, says in drawn((
            ("bench --ranks 3 --benchmark_filter=tp_", 2, "tp_buffer_reuse: heads=64 does not divide among 3 ranks"),
            ("bench --benchmark_filter=aliased", 4, "aliased matches controls alone (tp_buffer_reuse/seed/r4/lagging/aliased)"),
            ("bench --benchmark_filter=nosuch", 4, "no benchmark matches nosuch"),
            ("bench '--benchmark_filter=('", 2, "not a regular expression"),
            ("bench --size nosuch", 2, "unknown size 'nosuch'"),
            ("bench --siez seed", 2, "--siez is no flag"),
            ("bench --benchmark_nosuch=1", 2, "--benchmark_nosuch=1 is no flag of Google Benchmark"),
            ("bench --as-rank 4 --ranks 4", 2, "--as-rank 4 needs --ranks, at least 5"),
            ("bench --schedule late", 2, "unknown schedule 'late'"),
            ("bench --mode math", 2, "needs all ranks: mpirun -n 4"),
            ("bench --set hidden=0 --benchmark_filter=fsdp", 2, "from 1 to 65536")), 3):
        refuses(code, says, line)
    two = {"launcher": ("mpirun", "-n", "2")}
    refuses(2, "--as-rank: runs one process", "bench --as-rank 0", **two)
    refuses(2, "an order of its own", "bench --benchmark_enable_random_interleaving=true", **two)
    some = run("bench", "--ranks", 3, "--benchmark_filter=tp_buffer|ddp.*/bucket_view", "--benchmark_format=json")
    assert some.returncode == 0 and "note: tp_buffer_reuse: not measured: heads=64" in some.stderr
    assert len(json.loads(some.stdout)["benchmarks"]) == 1
    small = run("bench", "--benchmark_filter=tp_buffer_reuse/.*/separate", "--capacity", "20GiB", "--benchmark_format=json")
    assert small.returncode == 3 and "out of memory" in json.loads(small.stdout)["benchmarks"][0]["error_message"]
    Path("report.json").write_text("{}")
    Path("a.json").write_text('{"context": {}, "benchmarks": []}')
    refuses(2, "has no benchmarks of Google's library", "compare a.json report.json")


def test_the_librarys_warning_is_a_sentence():
    seen = run("bench", "--size", "smoke", "--benchmark_filter=ddp.*/bucket_view")
    assert seen.returncode == 0 and "WARNING" not in seen.stdout + seen.stderr
