"""The page of a real run, in a browser: the story of every variant of a scenario beside its baseline has the kinds and sums of the record. By day one
scenario, by the commit."""
# holds: reports/README.md, report.html
import os
import re
import subprocess

import pytest
from command import ROOT, drawn, passes

SCENARIOS = sorted(re.search(r"set\(TIDEMARK_CASES (.*)\)", (ROOT / "cases" / "CMakeLists.txt").read_text())[1].split())
SKIPPED = 77  # there is no browser


@pytest.mark.parametrize("scenario", drawn(SCENARIOS, len(SCENARIOS)))
def test_stories(scenario, tmp_path):
    passes("run", scenario, "--size smoke --ranks 2 --schedule lagging --steps 2 --mode shapes", "--out", tmp_path / "reports" / "run")
    tools = os.environ["PAGE_TOOLS"]
    done = subprocess.run([f"{tools}/node/bin/node", ROOT / "reports/page/page_test.mjs", tools, tmp_path, "stories"], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0
    assert f'"{scenario}":' in done.stdout
