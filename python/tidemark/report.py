"""The verdicts of a pytest run as a file, for --tidemark-report."""
import json
import os

SCHEMA = "tidemark/pytest"


class Writer:
    def __init__(self, config):
        self.folder, self.tests = config.getoption("tidemark_report"), []

    def pytest_runtest_logreport(self, report):
        if self.folder and (report.when == "call" or report.failed):
            if hasattr(report, "tidemark_verdicts") or report.failed:
                self.tests.append({"test": report.nodeid, "outcome": "error" if report.failed and report.when != "call" else report.outcome,
                                   "why": str(getattr(report, "longreprtext", "")) if report.failed else "",
                                   "verdicts": getattr(report, "tidemark_verdicts", []), **getattr(report, "tidemark_pair", {})})

    def pytest_sessionfinish(self):
        if not self.folder:
            return
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "verdicts.json"), "w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, "schema_version": "1.0", "tests": self.tests}, file, indent=1)
