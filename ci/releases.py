"""The releases of torch that ci/wheels has tried, as the documents say them."""
import json
import re
import sys

from environments import ROOT

OUTCOMES = ROOT / "harness" / "exec" / "python" / "tidemark_releases.json"
sys.path.append(str(OUTCOMES.parent))
from tidemark_releases import minor, numbers, span  # noqa: E402

GUIDE = ROOT / "harness" / "exec" / "README.md"
BEGIN, END = "<!-- ci/wheels --documents writes this table -->\n", "<!-- end of the table -->\n"
SPAN = re.compile(r"(?<=your torch \()[^)]*(?=\))")  # in README.md


def table(outcomes):
    """A row for each check that did not pass in every release, and one of all others."""
    releases = sorted(outcomes, key=numbers)
    checks = sorted({check for release in releases for check in outcomes[release]["checks"]})
    lines = ["| check | " + " | ".join(map(minor, releases)) + " |", "|---|" + "---|" * len(releases)]
    same, reasons = 0, []
    for check in checks:
        cells = [outcomes[release]["checks"].get(check, "not tried") for release in releases]
        if all(cell == "passed" for cell in cells):
            same += 1
            continue
        lines.append(f"| `{check}` | " + " | ".join(cell.split(":")[0] for cell in cells) + " |")
        for cell in dict.fromkeys(cell for cell in cells if ":" in cell):
            of = [minor(release) for release, one in zip(releases, cells) if one == cell]
            reasons.append(f"* `{check}` in {', '.join(of)}: {cell.replace('|', '/')}")
    lines.insert(2, f"| {same} others | " + " | ".join("passed" for _ in releases) + " |")
    when = sorted({(one["date"], one["commit"]) for one in outcomes.values()})
    tried = "; ".join(f"{date} at {commit}: {', '.join(r for r in releases if (outcomes[r]['date'], outcomes[r]['commit']) == (date, commit))}" for date, commit in when)
    return "\n".join([*lines, "", *reasons, *([""] if reasons else []), f"Tried {tried}."]) + "\n"


def documents(outcomes):
    """{file: its text, with what the outcomes say}"""
    readme, guide = (ROOT / "README.md").read_text(), GUIDE.read_text()
    before, rest = guide.split(BEGIN)
    return {ROOT / "README.md": SPAN.sub(span(outcomes), readme), GUIDE: before + BEGIN + table(outcomes) + END + rest.split(END, 1)[1]}


def write_documents():
    for file, text in documents(json.loads(OUTCOMES.read_text())).items():
        file.write_text(text)
    return 0
