#!/usr/bin/env python3
"""formats_test.py SAMPLE_REPORTS: what other programs read is what their parsers take: JUnit's XML, Google Benchmark's
JSON, gzipped Chrome traces, losses as "step float" lines."""
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from reading import read  # noqa: E402


class Formats(unittest.TestCase):
    folders: list[Path] = []

    def each(self, file="benchmark.json", count=8):
        """The reports that have this file; those of programs (6) have no benchmarks."""
        folders = [folder for folder in self.folders if (folder / file).exists()]
        self.assertEqual(len(folders), count)
        for folder in folders:
            with self.subTest(report=folder.name):
                yield folder, read(folder)

    def test_junit(self):
        for folder, report in self.each("junit.xml", 14):
            root = xml.parse(folder / "junit.xml").getroot()
            self.assertEqual(root.tag, "testsuites")
            assertions = [{status for verdict in trial["verdicts"] if (verdict["variant"], verdict["name"]) == key for status in [verdict["status"]]}
                          for trial in report["trials"] for key in {(v["variant"], v["name"]) for v in trial["verdicts"]}]
            self.assertEqual(len(root.findall("testsuite")), len({trial["scenario"] for trial in report["trials"]}))
            for attribute, element in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
                found = list(root.iter(element))
                self.assertEqual(int(root.get(attribute)), len(found), attribute)
                self.assertEqual(sum(int(suite.get(attribute)) for suite in root), len(found), attribute)
            self.assertEqual(int(root.get("failures")), sum("fail" in statuses for statuses in assertions))
            summary = report["summary"]
            programs = [trial["program"] for trial in report["trials"] if "program" in trial]
            unmeasured = sum(not program["ranks"] for program in programs)
            self.assertEqual(int(root.get("skipped")), sum("skip" in s and "fail" not in s for s in assertions) + summary["trials"]["skipped"] + unmeasured)
            lost = sum("not_run" in trial or bool(trial["skipped"]) for trial in report["trials"])
            self.assertEqual(summary["trials"]["planned"], summary["trials"]["finished"] + lost)
            if "ended" in report["run"]:
                self.assertIn("Incomplete: ", (folder / "summary.md").read_text(encoding="utf-8").splitlines()[0])
                self.assertEqual(sum(error.get("message").startswith("not run: ") for error in root.iter("error")),
                                 sum(trial["variants"][0].get("not_run") is not None or sum("not_run" in v for v in trial["variants"])
                                     for trial in report["trials"] if "not_run" in trial))
            passed = sum(int(said.text.removesuffix(" passed").split()[0].replace(",", "")) for said in root.iter("system-out"))
            self.assertEqual(passed, summary["passed"], "the count of verdicts that the page and summary.md have")
            if len(programs) < len(report["trials"]):
                counts = f"{summary['passed']:,} verdict{'s' if summary['passed'] != 1 else ''} passed, {summary['failed']:,} failed, {summary['skipped']:,} skipped"
                self.assertTrue(root.get("name").endswith(counts), root.get("name"))
                self.assertIn(counts, (folder / "summary.md").read_text(encoding="utf-8"))
            names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
            self.assertEqual(len(names), len(set(names)), "every case has a name of its own")

    def test_benchmark(self):
        for folder, report in self.each():
            data = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
            self.assertIn("date", data["context"])
            measured = sum(bool(variant["ranks"]) for trial in report["trials"] for variant in trial["variants"])
            self.assertEqual(len(data["benchmarks"]), measured)
            for entry in data["benchmarks"]:
                self.assertLessEqual({"name", "run_name", "run_type", "iterations", "real_time", "cpu_time", "time_unit"}, set(entry))
                # A GPU that was held back keeps no time.
                self.assertTrue(entry["real_time"] > 0 or entry.get("error_occurred"), entry["name"])
                self.assertGreaterEqual(entry["peak_reserved"], entry["peak_active"])

    def test_traces(self):
        for folder, report in self.each():
            for file in folder.glob("trace/**/*.json.gz"):
                events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
                self.assertEqual({event["ph"] for event in events}, {"M", "X", "C"})
                self.assertTrue(all(event["dur"] >= 0 for event in events if event["ph"] == "X"))

    def test_losses(self):
        for folder, report in self.each():
            runs = [variant["loss"] for trial in report["trials"] for variant in trial["variants"]]
            files = list(folder.glob("loss/**/*.txt"))
            self.assertEqual(len(files), sum(any(point["value"] is not None for point in loss) for loss in runs))
            for file in files:
                for line in file.read_text().splitlines():
                    step, value = line.split(" ")
                    self.assertEqual(f"{int(step)} {float(value)!r}", line)


if __name__ == "__main__":
    work = Path(tempfile.mkdtemp())
    try:
        subprocess.run([sys.argv[1], str(work)], check=True)
        Formats.folders = sorted(work.iterdir())
        outcome = unittest.main(argv=sys.argv[:1], exit=False).result
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(0 if outcome.wasSuccessful() and outcome.testsRun == 4 else 1)
