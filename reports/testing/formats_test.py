"""What other programs read is what their parsers take: JUnit's XML, Google Benchmark's
JSON, gzipped Chrome traces, losses as "step float" lines. SAMPLE_REPORTS writes reports made up for tests."""
import gzip
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from reading import read  # noqa: E402


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    work = tmp_path_factory.mktemp("reports")
    subprocess.run([os.environ["SAMPLE_REPORTS"], work], check=True)
    return sorted(work.iterdir())


def each(folders, file="benchmark.json", count=8):
    """The reports that have this file; those of programs (9) have no benchmarks."""
    folders = [folder for folder in folders if (folder / file).exists()]
    assert len(folders) == count
    for folder in folders:
        print(folder.name)
        yield folder, read(folder)


def test_junit(folders):
    for folder, report in each(folders, "junit.xml", 17):
        root = xml.parse(folder / "junit.xml").getroot()
        assert root.tag == "testsuites"
        assertions = [{status for verdict in trial["verdicts"] if (verdict["variant"], verdict["name"]) == key for status in [verdict["status"]]}
                      for trial in report["trials"] for key in {(v["variant"], v["name"]) for v in trial["verdicts"]}]
        assert len(root.findall("testsuite")) == len({trial["scenario"] for trial in report["trials"]})
        for attribute, element in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            elements = list(root.iter(element))
            assert int(root.get(attribute)) == len(elements), attribute
            assert sum(int(suite.get(attribute)) for suite in root) == len(elements), attribute
        assert int(root.get("failures")) == sum("fail" in statuses for statuses in assertions)
        summary = report["summary"]
        programs = [trial["program"] for trial in report["trials"] if "program" in trial]
        unmeasured = sum(not program["ranks"] for program in programs)
        assert int(root.get("skipped")) == sum("skip" in s and "fail" not in s for s in assertions) + summary["trials"]["skipped"] + unmeasured
        lost = sum("not_run" in trial or bool(trial["skipped"]) for trial in report["trials"])
        assert summary["trials"]["planned"] == summary["trials"]["finished"] + lost
        if "ended" in report["run"]:
            assert "Incomplete: " in (folder / "summary.md").read_text(encoding="utf-8").splitlines()[0]
            lost = [trial["variants"] for trial in report["trials"] if "not_run" in trial]
            assert sum(error.get("message").startswith("not run: ") for error in root.iter("error")) == sum(
                variants[0].get("not_run") is not None or sum("not_run" in v for v in variants) for variants in lost)
        passed = sum(int(output.text.removesuffix(" passed").split()[0].replace(",", "")) for output in root.iter("system-out") if output.text.endswith(" passed"))
        assert passed == summary["passed"], "the count of verdicts that the page and summary.md have"
        if len(programs) < len(report["trials"]):
            counts = f"{summary['passed']:,} verdict{'s' if summary['passed'] != 1 else ''} passed, {summary['failed']:,} failed, {summary['skipped']:,} skipped"
            assert root.get("name").endswith(counts), root.get("name")
            assert counts in (folder / "summary.md").read_text(encoding="utf-8")
        names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
        assert len(names) == len(set(names)), "every case has a name of its own"


def test_benchmark(folders):
    for folder, report in each(folders):
        data = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
        assert "date" in data["context"]
        measured = sum(bool(variant["ranks"]) and variant["role"] != "control" for trial in report["trials"] for variant in trial["variants"])
        assert len(data["benchmarks"]) == measured
        for entry in data["benchmarks"]:
            assert {"name", "run_name", "run_type", "iterations", "real_time", "cpu_time", "time_unit"} <= set(entry)
            # A GPU that was held back keeps no time, and where no trial with a clock ran the label says so.
            assert entry["real_time"] > 0 or entry.get("error_occurred") or "; not timed: " in entry["label"], entry["name"]
            assert entry["peak_reserved"] >= entry["peak_active"]


def test_traces(folders):
    for folder, report in each(folders):
        for file in folder.glob("trace/**/*.json.gz"):
            events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
            assert {event["ph"] for event in events} == {"M", "X", "C"}
            assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_losses(folders):
    for folder, report in each(folders):
        runs = [variant["loss"] for trial in report["trials"] for variant in trial["variants"]]
        files = list(folder.glob("loss/**/*.txt"))
        assert len(files) == sum(any(point["value"] is not None for point in loss) for loss in runs)
        for file in files:
            for line in file.read_text().splitlines():
                step, value = line.split(" ")
                assert f"{int(step)} {float(value)!r}" == line
