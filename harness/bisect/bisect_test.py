"""`tidemark bisect` with a local index of tiny wheels and with a git repository, without a network. Programs have the torch of SITE."""
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "exec" / "testing"))
import said as of_exec  # noqa: E402
from said import FOLDER, MIB, ROOT, SITE, drawn  # noqa: E402, F401

DEPS = Path(SITE).parent
UV = shutil.which("uv") or next(map(str, DEPS.glob("uv/uv-*.data/scripts/uv")), None)
if UV is None:
    pytest.fail("there is no uv: ci/setup tests", pytrace=False)
INDEX, BASE, KEPT, TMP, WORK = (FOLDER / name for name in ("simple", "base", "kept", "tmp", "work"))
OWN = {"PATH": f"{Path(UV).parent}:{os.environ['PATH']}", "UV_DEFAULT_INDEX": INDEX.as_uri(), "UV_CACHE_DIR": str(FOLDER / "uv"), "UV_PYTHON_DOWNLOADS": "never",
       "TMPDIR": str(TMP), "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(FOLDER / "cache"), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t",
       "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}
TAKES = "import torch\ndef take():\n    return torch.empty({} << 20, dtype=torch.uint8, device='cuda')\n"


def wheel(name, version, code, requires=(), tag="py3-none-any", yanked=None):
    """Adds a wheel to the index."""
    place, info = INDEX / name, f"{name}-{version}.dist-info"
    place.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {f"{name}.py": code, f"{info}/METADATA": metadata, f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"}
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    file = place / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(file, "w") as out:
        for path, text in files.items():
            out.writestr(path, text)
    page = place / "index.html"
    said = f' data-yanked="{yanked}"' if yanked is not None else ""
    page.write_text((page.read_text() if page.exists() else "<!DOCTYPE html>\n") + f'<a href="{file.name}"{said}>{file.name}</a>\n')


def uv(*words):
    subprocess.run([UV, *map(str, words), "--quiet"], check=True, env={**os.environ, **OWN})


@pytest.fixture(scope="module", autouse=True)
def index():
    """growing 1.0 to 1.9: 4 MiB up to 1.2, then 24 MiB; 1.1 is yanked, 1.4 has no wheel for this Python, 1.5 wants what the index does not have, 1.6 does not
    import, 1.7 and later want helper 2. The user's environment has growing 1.0 and helper 1.0."""
    TMP.mkdir()
    WORK.mkdir()
    for minor in range(10):
        code = TAKES.format(4 if minor <= 2 else 24)
        wheel("growing", f"1.{minor}", "raise ImportError('torch is too new')\n" if minor == 6 else code, requires=["nowhere>=1"] if minor == 5 else ["helper>=2" if minor >= 7 else "helper"],
              tag="cp38-cp38-manylinux2014_x86_64" if minor == 4 else "py3-none-any", yanked="a broken wheel" if minor == 1 else None)
    wheel("growing", "2.0rc1", TAKES.format(64), ["helper"])
    for version in ("1.0", "2.0"):
        wheel("helper", version, "")
    uv("venv", "--python", sys.executable, BASE)
    uv("pip", "install", "--python", BASE / "bin" / "python", "growing==1.0", "helper==1.0")
    (WORK / "train.py").write_text("import growing\nkept = growing.take()\n")


class Said(of_exec.Said):
    def __init__(self, *words, **more):
        super().__init__(*words, command="bisect", folder=WORK, most=500, **{**OWN, **more})

    def record(self):
        return json.loads(self.out)


COMMAND = ("--", BASE / "bin" / "python", "train.py")


def asked(act, **more):
    """What the script of environments answers; its lines on stderr."""
    request = {"python": str(BASE / "bin" / "python"), "kept": str(KEPT), "package": "growing", "first": "", "last": "", "listed": [], "fixed": {}, "repo": "", **more}
    script = Path(of_exec.TIDEMARK).parent / "virtual" / "python" / "tidemark_environments.py"
    done = subprocess.run([sys.executable, script, act, json.dumps(request)], capture_output=True, text=True, env={**os.environ, **OWN}, check=False)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else done.stdout.strip()


# holds: harness/bisect/README.md, Versions
def test_versions():
    """A range is of final releases, in order, without yanked ones, which are said; an end that is a candidate is in it."""
    code, answer = asked("list", first="1.0", last="1.8")
    assert (code, answer["versions"], answer["skipped"]) == (0, [f"1.{minor}" for minor in range(9) if minor != 1], [["1.1", "yanked: a broken wheel"]])
    assert asked("list")[1]["versions"][-1] == "1.9" and asked("list", last="2.0rc1")[1]["versions"][-2:] == ["1.9", "2.0rc1"]
    assert asked("list", listed=["1.9", "1.2.0"])[1]["versions"] == ["1.2", "1.9"], "1.2.0 is 1.2"


# holds: harness/bisect/README.md, Environments
def test_environments():
    """All but the package stays as it is; what a version demands otherwise is listed; one that cannot be installed has its reason and leaves nothing."""
    _, same = asked("make", version="1.3")
    _, other = asked("make", version="1.8")
    assert (same["changed"], other["changed"]) == ([], ["helper 1.0 -> 2.0"])
    assert Path(other["lock"]).read_text().splitlines() == ["growing==1.8", "helper==2.0"]
    assert "no wheels with a matching" in asked("make", version="1.4")[1]["skipped"]
    assert "nowhere was not found" in asked("make", version="1.5")[1]["skipped"]
    _, fixed = asked("make", version="1.2", fixed={"helper": "2.0"})
    assert fixed["packages"] == {"growing": "1.2", "helper": "2.0"} and fixed["changed"] == []
    shutil.rmtree(KEPT / "environments" / Path(same["folder"]).name / "lib")  # half of it
    Path(same["folder"], "ready").unlink()
    assert asked("make", version="1.3")[1] == same and Path(same["folder"], "ready").exists()
    names = {one.name.rsplit("-", 1)[0] for one in (KEPT / "environments").iterdir() if one.is_dir()}
    assert names == {"growing-1.2", "growing-1.3", "growing-1.8"}, names
    assert not list(KEPT.glob("tmp*"))


def test_input():
    Said("--package", "growing=7..8", *COMMAND).refuses("the index has no version from 7 to 8: it has 1.0 to 1.9")
    Said("--package", "growing=1.1..1.1", *COMMAND).refuses("no version from 1.1 to 1.1 but yanked ones")
    Said("--package", "growing=1.9..1.2", *COMMAND).refuses("the range is empty: 1.9 is after 1.2")
    Said("--package", "growing=1.0..much", *COMMAND).refuses("much is not a version")
    Said("--package", "growing=1.0,1.77", *COMMAND).refuses("the index has no growing 1.77")
    Said("--package", "absent=1..2", *COMMAND).refuses("absent is not installed in the environment of")
    Said("--package", "growing", *COMMAND).refuses("give NAME=FIRST..LAST")
    Said("--package", "growing=1.0..1.2", "--package", "helper=1..2", *COMMAND).refuses("growing and helper are both ranges")
    Said("--package", "growing=1.2", *COMMAND).refuses("nothing varies")
    Said("--package", "growing=1.0..1.2", "--grew", "much", *COMMAND).refuses("--grew much")
    Said("--package", "growing=1.0..1.2", "--gpu", "h100", *COMMAND).refuses("no GPU profile 'h100'")
    Said("--package", "growing=1.0..1.2", "--frobnicate", *COMMAND).refuses("--frobnicate is not a flag of bisect")
    Said("--package", "growing=1.0..1.2").refuses("no command")
    Said("--package", "growing=1.0..1.2", "--", "nowhere").refuses("nowhere cannot be started")
    Said("--commits", "a..b", "--repo", "none", *COMMAND).refuses("--repo none: is not a folder")
    Said("--commits", "a..b", "--repo", ".", *COMMAND).refuses("not a git repository")
    Said("--package", "growing=1.0..1.2", *COMMAND, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin").refuses("uv is not in PATH: install it (pip install uv)")
    away = Said("--package", "growing=1.0..1.2", *COMMAND, UV_DEFAULT_INDEX="http://127.0.0.1:9/simple", XDG_CACHE_HOME=str(FOLDER / "other"))
    away.ends(3, "error: bisect: no network: the versions of growing are not known")
    assert away.err.count("\n") == 1, away.err


# holds: harness/bisect/README.md, What is kept
# holds: reports/bisect/
def test_change():
    """The one change between versions that run is named, with its line, its cause and its kinds; the others are said; the same command runs nothing."""
    words = ("--package", "growing=1.2..1.5", "--format", "json", *COMMAND)
    first = Said("--report", "change", *words).ends(1)
    record = first.record()
    assert {one["version"]: one["state"] for one in record["versions"]} == {"1.2": "ran", "1.3": "ran", "1.4": "not installed", "1.5": "not installed"}
    (change,) = record["changes"]
    assert (change["from"], change["to"], change["allocated"], change["active"], change["because"]) == ("1.2", "1.3", 20 * MIB, 20 * MIB, ["growing: 1.2 -> 1.3"])
    assert [(part["line"], part["bytes"]) for part in change["parts"]] == [("take growing.py:3", 20 * MIB)]
    report = WORK / "change"
    assert sorted(one.name for one in report.iterdir()) == ["bisect.json", "bisect.md", "growing-1.2.lock.txt", "growing-1.3.lock.txt", "report.html"]
    line = "growing 1.2 -> 1.3: reserved 20 MiB -> 24 MiB, +4 MiB"
    assert line.replace(">", "&gt;") in (report / "bisect.md").read_text() and "Peak by version, by kind of memory" in (report / "report.html").read_text() and "train.py: growing 1.2 -&gt; 1.3: +4 MiB reserved" in (report / "report.html").read_text()
    again = Said(*words).ends(1).record()
    assert again["changes"] == record["changes"] and "0 runs here, 2 from the cache" in again["notes"][-1], again["notes"]


def test_record():
    """evidence/versions/README.md has the tables of peaks.json."""
    sys.path.insert(0, str(ROOT / "ci"))
    loader = importlib.machinery.SourceFileLoader("versions", str(ROOT / "ci" / "versions"))
    versions = importlib.util.module_from_spec(importlib.util.spec_from_loader("versions", loader))
    loader.exec_module(versions)
    assert versions.tables(json.loads(versions.PEAKS.read_text())) in versions.README.read_text()


# night: five runs; search_test holds the search by day
def test_same():
    """No change is exit code 0, and what was not tried is said; --all tries it; no version that runs is exit code 3."""
    same = Said("--package", "growing=1.7..1.9", *COMMAND).ends(0)
    assert "growing: no peak differs by more than 1%" in same.out and "1 version did not run" in same.out and "helper 1.0 -> 2.0 (1.7 and 1 more)" in same.out
    assert "3 of 3 versions ran" in Said("--package", "growing=1.7..1.9", "--all", *COMMAND).ends(0).out
    refused = Said("--package", "growing=1.4..1.6", "--format", "json", *COMMAND).ends(3).record()["versions"][-1]
    assert (refused["state"], refused["why"]) == ("refused", "ImportError: torch is too new")


# night: two more runs, as jobs
def test_jobs():
    """--executor local gives the answer of one process, by jobs of submitit."""
    words = ("--package", "growing=1.2..1.3", "--format", "json", "--fresh", *COMMAND)
    jobs = Said("--executor", "local", *words, path=f"{SITE}:{DEPS / 'pytest'}").ends(1).record()
    assert jobs["changes"] == Said(*words).ends(1).record()["changes"]
    assert not list((FOLDER / "cache" / "tidemark" / "bisect" / "runs").glob("tidemark-fit-*"))
    Said("--executor-option", "a=b", *words).refuses("--executor-option is of --executor")


# night: runs commits; environments_test holds the rest by day
def test_commits():
    """The commit of a library that changed the peak, by its subject; a library that does not build is passed over; the repository stays as it is."""
    repo = FOLDER / "library"
    (repo / "src").mkdir(parents=True)

    def git(*words):
        return subprocess.run(["git", "-C", repo, *words], check=True, capture_output=True, text=True, env={**os.environ, **OWN}).stdout
    git("init", "-q")
    for number in range(6):
        (repo / "src" / "mine.py").write_text(f"# {number}\n" + TAKES.format(4 if number < 3 else 24))
        git("add", "-A")
        git("commit", "-q", "-m", f"commit {number}")
    git("tag", "begin", "HEAD~5")
    (WORK / "mine_train.py").write_text("import mine\nkept = mine.take()\n")
    result = Said("--commits", "begin..HEAD", "--repo", repo, "--", BASE / "bin" / "python", "mine_train.py").ends(1)
    assert '"commit 3": reserved 20 MiB -> 24 MiB' in result.out and "take mine.py:4" in result.out, result.out
    assert git("status", "--porcelain") == ""
    Said("--commits", "HEAD..begin", "--repo", repo, *COMMAND).refuses("is not an ancestor")
    Said("--commits", "begin..nowhere", "--repo", repo, *COMMAND).refuses("has no commit nowhere")


# night: mounts a small file system, which wants root
def test_full():
    """A disk that is full ends the command with one line, and nothing half made stays."""
    if os.geteuid() != 0:
        pytest.skip("no root")
    place = FOLDER / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", place], check=False, capture_output=True).returncode != 0:
        pytest.skip("no mount here")
    try:
        full = Said("--package", "growing=1.2..1.3", "--cache", place, *COMMAND, UV_LINK_MODE="copy").ends(3, "error: bisect: the disk is full")
        assert full.err.count("\nerror") <= 1 and not list(place.glob("environments/*/ready"))
    finally:
        subprocess.run(["umount", place], check=True)
