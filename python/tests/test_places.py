"""Variants of a pair in another Python or another commit."""
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from test_outcomes import run, whole_report

MODEL = """import torch
def activations():
    return [torch.empty({} << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
"""
TEST = """import sys, tidemark
@tidemark.pair(baseline="before", fixed=["after"], {})
def test_it(variant, memory):
    import torch
    from package import model
    with memory.phase("forward"):
        kept = model.activations()
    memory.rise("forward").requested.equals("2*U", U=(3 if variant == "before" else 2) << 20)
    memory.saving("forward").requested.equals("2*M", M=1 << 20)
    print(variant, sys.prefix)
    return torch.ones(3)
"""


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", folder, *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path):
    """A repository: the model of its first commit keeps two tensors of 3 MiB, that of its working tree two of 2 MiB."""
    package = tmp_path / "project" / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model.py").write_text(MODEL.format(3))
    (package.parents[1] / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    git(tmp_path, "init", "-q", "project")
    git(package.parents[1], "add", "-A")
    git(package.parents[1], "commit", "-qm", "before")
    (package / "model.py").write_text(MODEL.format(2))
    (package.parents[1] / "tests").mkdir()
    return package.parents[1]


def outcome(project, places, *words):
    (project / "tests" / "test_it.py").write_text(TEST.format(places))
    by_test, output, code = run(project, str(project / "tests" / "test_it.py"), "--rootdir", project, *words)
    return *by_test.get("test_it", ("", "")), output, code


# night: checks out commits and runs them; python_places_test has another Python by day
def test_commits(project):
    report = project / "report"
    result = outcome(project, "commits={'before': 'HEAD'}", "--tidemark-report", report)
    assert result[0] == "passed", result
    trial, = whole_report(report)["trials"]
    before, after = trial["variants"]
    assert ", commit " in before["what"] and after["what"] == "", trial["variants"]
    assert {one["measured"] for one in trial["verdicts"] if one["name"] == "saving/requested/forward"} == {2 << 20}


# night: checks out commits and runs them
def test_both_commits_are_the_same(project):
    """The formulas find it: both sides then keep 3 MiB."""
    result = outcome(project, "commits={'before': 'HEAD', 'after': 'HEAD'}")
    assert result[0] == "failure" and "measured 6,291,456 bytes (+2,097,152)" in result[2], result


# night: checks out commits and runs them
def test_a_module_of_the_working_tree_is_found_out(project):
    (project / "tests" / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(project / 'src')!r})\n")
    result = outcome(project, "commits={'before': 'HEAD'}")
    assert result[0] == "error" and "before has imported package, package.model from the working tree, not from its commit" in result[1], result


BAD = [
    ("commits={'before': 'nosuch'}", "has no commit nosuch"), ("pythons={'before': 'nosuch/bin/python'}", "nosuch/bin/python cannot be run: name an environment"),
    ("pythons={'other': 'python3'}", "pythons names other, which is not a variant"), ("commits={'before': 3}", "commits['before'] must be a string or path, not 3"),
    ("pythons={'before': sys._base_executable}", "has no torch"),
]


def test_bad_places(project):
    """Each in a file of its own; one pytest runs all."""
    for number, (places, _) in enumerate(BAD):
        (project / "tests" / f"test_{number}.py").write_text(TEST.format(places))
    _, output, code = run(project, str(project / "tests"), "--rootdir", project, "--continue-on-collection-errors")
    said = xml.parse(project / "junit.xml")
    assert code != 0 and [case.tag for case in said.iter("testcase")] == len(BAD) * ["testcase"], output
    for number, (places, line) in enumerate(BAD):
        case, = (one for one in said.iter("testcase") if f"test_{number}" in one.get("classname") + "." + one.get("name"))
        assert line in "".join(one.get("message") + (one.text or "") for one in case.iter("error")), f"{places}: {output}"


# holds: python/README.md, Variants of another torch or commit
def test_pythons(project):
    """Another environment, with this torch and without pytest; and both at once."""
    other = project.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    packages = next((other / "lib").iterdir()) / "site-packages"
    torch = Path(__import__("importlib.util").util.find_spec("torch").origin).parent.parent
    (packages / "torch.pth").write_text(f"{torch}\n")
    result = outcome(project, f"commits={{'before': 'HEAD'}}, pythons={{'before': {str(other)!r}}}", "-rP", "-s")
    assert result[0] == "passed" and f"before {other}" in result[2] and f"after {sys.prefix}" in result[2], result
