"""Two runs on four ranks, of the smoke suite or of the scenarios that are named, leave the same bytes in every file but for the object
`run` (when, where, how long). The second one runs without address-space randomisation and with a
larger environment, so host memory is laid out differently: no order may come from addresses. TWO_RUNS_OF has other arguments of run."""
import base64
import gzip
import json
import os
import re
import subprocess
from pathlib import Path

from command import passes

DATA = re.compile(rb'<script type="text/plain" id="data">([^<]*)</script>')
PROVENANCE = re.compile(rb'<dl class="provenance">.*?</dl>', re.S)


def without_run(name, content, run):
    """The parts of a file that must be equal in both runs."""
    if name == "report.json":
        report = json.loads(content)
        end = content.index(b'"trials": [')
        head = json.loads(content[:end].rstrip().rstrip(b",") + b"}")
        return {key: value for key, value in head.items() if key != "run"}, list(report), content[end:]
    if name == "report.html":
        page = json.loads(gzip.decompress(base64.b64decode(DATA.search(content)[1])))
        del page["run"]
        plain = PROVENANCE.sub(b"", DATA.sub(b"", content))
        return plain.replace(run["started"].encode(), b"STARTED"), json.dumps(page)
    if name in ("junit.xml", "summary.md", "benchmark.json"):
        return content.replace(run["started"].encode(), b"STARTED")
    return content


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def differences(first, second):
    names = [files_of(folder) for folder in (first, second)]
    runs = [json.loads((folder / "report.json").read_bytes())["run"] for folder in (first, second)]
    if runs[0]["id"] == runs[1]["id"]:
        return ["both folders hold the same run"]
    different = [f"{name}: in one run alone" for name in sorted(names[0] ^ names[1])]
    for name in sorted(names[0] & names[1]):
        a, b = (without_run(name, (folder / name).read_bytes(), made) for folder, made in zip((first, second), runs))
        if a != b:
            different.append(f"{name}: the two runs differ")
    return different


# night: a suite twice; device_determinism_test and cli_test hold one trial by day
def test_two_runs():
    fixed_layout = ["setarch", "-R"]
    if subprocess.run(fixed_layout + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("address-space randomisation cannot be turned off here: both runs have it")
        fixed_layout = []
    first, second = Path("first"), Path("second")
    for out, launcher, more in ((first, [], {}), (second, fixed_layout, {"TWO_RUNS_FILLER": "x" * 5000})):
        passes("run --ranks 4", os.environ.get("TWO_RUNS_OF", "--suite smoke"), "--out", out, "--history off", launcher=launcher, **more)
    different = differences(first, second)
    compared = files_of(first)
    size = sum((first / name).stat().st_size for name in compared)
    print(f"{len(compared)} files, {size:,} bytes compared, {len(different)} differences")
    assert not different, "\n".join(different)
    assert len(compared) >= 10, compared
