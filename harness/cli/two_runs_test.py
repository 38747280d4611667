"""Two runs on four ranks, of the smoke suite or of the scenarios that are named, leave the same bytes in every file but for the object
`run` (when, where, how long). The second one runs without address-space randomisation and with a
larger environment, so host memory is laid out differently: no order may come from addresses.

    python3 two_runs_test.py build/dev/tidemark [arguments of run ...]
"""
import base64
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from command import run

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


def main():
    fixed_layout = ["setarch", "-R"]
    if subprocess.run(fixed_layout + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("address-space randomisation cannot be turned off here: both runs have it")
        fixed_layout = []
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        for out, launcher, more in ((first, [], {}), (second, fixed_layout, {"TWO_RUNS_FILLER": "x" * 5000})):
            done = run("run", "--ranks", 4, *(sys.argv[2:] or ["--suite", "smoke"]), "--out", out, "--history", "off",
                       cwd=folder, launcher=launcher, **more)
            if done.returncode != 0:
                sys.exit(f"exit code {done.returncode} of {' '.join(done.args)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        different = differences(first, second)
        compared = files_of(first)
        size = sum((first / name).stat().st_size for name in compared)
    print(f"{len(compared)} files, {size:,} bytes compared, {len(different)} differences")
    for line in different:
        print(line)
    sys.exit(1 if different or len(compared) < 10 else 0)


if __name__ == "__main__":
    main()
