"""Limits, and what a failure shows."""
import html
import re
import xml.etree.ElementTree as xml

import pytest
from test_outcomes import run, whole_report

import tidemark


@pytest.fixture(scope="module")
def limits_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    outcomes, output, code = run(folder, "sample_limits.py", "--tidemark-report", folder / "report")
    assert code == 1, output
    assert (folder / "report" / "report.html").exists(), output
    return outcomes, output, folder / "report"


@pytest.mark.parametrize("test, outcome, line", [
    ("test_keeps_its_limit", "passed", ""), ("test_grows_as_it_may", "passed", ""), ("test_baseline_may_be_over", "passed", ""), ("test_own_fixture", "passed", ""),
    ("test_is_over_its_limit", "failure", r"FAIL memory/allocated/limit: rank 0\s+expected at most 2,097,152 bytes\s+measured 2,097,664 bytes \(\+512\)"),
    ("test_reserves_more", "failure", r"FAIL memory/reserved/limit: rank 0\s+expected at most 19,922,944 bytes\s+measured 20,971,520 bytes"),
    ("test_grows_more", "failure", r"FAIL growth/limit: rank 0\s+expected at most 2,097,152 bytes\s+measured 2,097,154 bytes \(\+2\)\s+held 2,097,154 bytes after step 1"),
    ("test_pair_has_no_golden", "error", r"wide: tidemark.*: memory.matches_golden: a variant of a pair has no golden"),
    ("test_has_no_steps", "error", r"tidemark.limit_growth: 0 steps, and at least 3"),
])
def test_limit(limits_run, test, outcome, line):
    assert limits_run[0][test][0] == outcome and re.search(line, limits_run[0][test][1] or ""), limits_run


def test_a_failure_shows_the_largest_blocks(limits_run):
    """By module and line: the output of the model, its weight, its input (bytes: 256 x 1024, 1024 x 1024 and 256 x 1024 floats)."""
    shown = limits_run[1][limits_run[1].index("test_fails_with_blocks"):]
    assert "alive at the highest peak, the ten largest by module and line" in shown
    assert re.search(r"4,194,304 bytes in 1 block, parameters: .*sample_limits\.py:\d+", shown), shown
    assert re.search(r"1,048,576 bytes in 1 block, inputs: .*sample_limits\.py:\d+", shown), shown


def test_the_report_has_a_page_of_tests(limits_run):
    """Peaks are those of the whole test; of each that failed the page has what was alive."""
    trials = {trial["scenario"].split("::")[1]: trial for trial in whole_report(limits_run[2])["trials"]}
    page = html.unescape((limits_run[2] / "report.html").read_text())
    cells = [[re.sub("<[^>]*>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)] for row in re.findall('<tr>(.*?)</tr>', page) if 'class="status' in row]
    rows = {name: next(row for row in cells if row[0].endswith(f"::{name}")) for name in ("test_is_over_its_limit", "test_keeps_its_limit", "test_reserves_more")}
    assert rows["test_is_over_its_limit"][1] == "failed" and "2.0 MiB" in rows["test_is_over_its_limit"] and 'title="2,097,664 bytes"' in page, rows
    assert rows["test_keeps_its_limit"][1] == "passed" and "2 MiB" in rows["test_keeps_its_limit"] and 'title="2,097,152 bytes"' in page, rows
    assert any("at most 2 MiB" in cell for cell in rows["test_keeps_its_limit"]), rows
    assert "20 MiB" in rows["test_reserves_more"] and 'title="20,971,520 bytes"' in page and "reserved" in " ".join(rows["test_reserves_more"]), rows
    alive = trials["test_fails_with_blocks"]["alive"]
    assert ("parameters", 1, 4194304) in [(part["kind"], part["count"], part["bytes"]) for part in alive["parts"]]
    assert sum(part["bytes"] for part in alive["parts"]) == alive["active"]
    assert re.search(r'4,194,304 bytes">4 MiB</span></td><td[^>]*>1</td><td[^>]*>parameters</td><td[^>]*>[^<]*sample_limits\.py:\d+<', page)
    assert "alive" not in trials["test_keeps_its_limit"] and "No fix ran" not in page
    cases = {(case.get("classname").split("::")[1].split("/")[0], case.get("name")) for case in xml.parse(limits_run[2] / "junit.xml").iter("testcase") if case.find("failure") is not None}
    assert ("test_is_over_its_limit", "test/memory/allocated/limit") in cases, cases


def test_a_mistake_in_the_body_is_not_one_of_the_setup(limits_run):
    assert "ERROR at run of test_has_no_steps" in limits_run[1] and "ERROR at setup" not in limits_run[1], limits_run[1]


@pytest.mark.parametrize("size, expected", [(7, 7), ("6GiB", 6 << 30), ("1.5 KiB", 1536), ("2MB", 2_000_000), ("0B", 0)])
def test_size(size, expected):
    assert tidemark.limit(size).mark.kwargs["limit"] == expected


@pytest.mark.parametrize("size", ["80", "GiB", "1e3MiB", -1, True, None, 1.5])
def test_no_size(size):
    with pytest.raises(tidemark.Misuse, match="give bytes as a number, or a text with a unit"):
        tidemark.limit(size)


def test_no_statistic():
    with pytest.raises(tidemark.Misuse, match="'all' is none of allocated, active, reserved, requested"):
        tidemark.limit(1, of="all")
