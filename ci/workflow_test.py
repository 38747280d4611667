"""The steps of the GitHub action and of the GitLab component, as they stand in their YAML, on a small repository in
which a change widens a model. The installation alone is not run. The steps of the workflows are read, and those that run scripts name files that exist."""
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import yaml
from stand_in import executable

ROOT = Path(__file__).resolve().parents[1]
TIDEMARK = os.path.abspath(os.environ.get("TIDEMARK_BIN", ROOT / "build/dev/tidemark"))
DEPS = Path(os.environ.get("TIDEMARK_DEPS", ROOT / ".deps"))
PROGRAM = "import torch\nmodel = torch.nn.Linear(1024, {}, bias=False, device='cuda')\nmodel(torch.ones(256, 1024, device='cuda')).sum().backward()\n"
TEST = "import tidemark, torch\n@tidemark.limit({!r}, of='allocated')\ndef test_it():\n    torch.empty(1 << 20, device='cuda')\n"


def repository(folder, width, limit):
    """main has a model of width 1,024, the working tree one of this width."""
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True)

    (folder / "src").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "src" / "train.py").write_text(PROGRAM.format(1024))
    (folder / "tests" / "test_it.py").write_text(TEST.format(limit))
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "before")
    git("checkout", "-qb", "change")
    (folder / "src" / "train.py").write_text(PROGRAM.format(width))
    git("commit", "-qam", "after", "--allow-empty")
    git("clone", "-q", "--bare", ".", "origin.git")
    git("remote", "add", "origin", str(folder / "origin.git"))
    git("fetch", "-q", "origin")
    return folder


def run(folder, *words, **more):
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    for name, target in (("tidemark", TIDEMARK), ("python", sys.executable)):
        executable(commands / name, f'#!/bin/sh\nexec {target} "$@"\n')
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT / 'python'}:{DEPS / 'pytest'}:{DEPS / 'python'}", "TIDEMARK": TIDEMARK,
                   "PYTEST_ADDOPTS": "-p tidemark.plugin -p no:cacheprovider", "GITHUB_STEP_SUMMARY": str(folder / "step.md"), "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", **more}
    done = subprocess.run([sys.executable, ROOT / "ci" / "workflow", *words], capture_output=True, text=True, check=False, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


def wheel(place, name, version, code):
    """A wheel for --find-links."""
    info = f"{name}-{version}.dist-info"
    place.mkdir(exist_ok=True)
    with zipfile.ZipFile(place / f"{name}-{version}-py3-none-any.whl", "w") as out:
        for path, text in {f"{name}.py": code, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                           f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", f"{info}/RECORD": ""}.items():
            out.writestr(path, text)


# night: makes environments and runs four programs; bisect_test holds the command by day
def test_tomorrow(tmp_path):
    """The newest release of a dependency takes more than the test allows and than the installed one: both are said, and the step fails."""
    folder = repository(tmp_path / "tomorrow", 1024, "9MiB")
    for version, mib in (("1.0", 8), ("1.1", 24)):
        wheel(tmp_path / "wheels", "growing", version, f"import torch\ndef take():\n    return torch.empty({mib} << 20, dtype=torch.uint8, device='cuda')\n")
    uv = shutil.which("uv") or next(map(str, DEPS.glob("uv/uv-*.data/scripts/uv")))
    settings = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(tmp_path / "wheels"), "UV_CACHE_DIR": str(tmp_path / "uv"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "RUNNER_TEMP": str(tmp_path)}
    python = tmp_path / "base" / "bin" / "python"
    for words in (["venv", "--python", sys.executable, tmp_path / "base"], ["pip", "install", "--python", python, "growing==1.0"]):
        subprocess.run([uv, *words], check=True, capture_output=True, env={**os.environ, **settings})
    (folder / "src" / "train.py").write_text("import growing\nkept = growing.take()\n")
    (folder / "tests" / "test_it.py").write_text("import growing, tidemark\n@tidemark.limit('9MiB', of='allocated')\ndef test_it():\n    growing.take()\n")
    (folder / "commands").mkdir()
    executable(folder / "commands" / "uv", f'#!/bin/sh\nexec {uv} "$@"\n')
    code, output = run(folder, ROOT / "action.yml", "--skip", "Install", "--skip", "Tools for tomorrow", "--input", "tests=tests", "--input", f"program={python} src/train.py",
                       "--input", "tomorrow=growing", "--context", "github.base_ref=main", "--context", "github.event_name=schedule", **settings)
    assert code == 1 and "growing 1.0 -> 1.1: reserved 20 MiB -> 24 MiB" in output and "1 failed" in output and "--- Peaks: skipped" in output, output
    assert "growing.py:3" in (folder / "step.md").read_text()


def action(folder):
    return run(folder, ROOT / "action.yml", "--skip", "Install", "--input", "tests=tests", "--input", "program=python src/train.py", "--context", "github.base_ref=main",
               "--context", "github.event_name=push")


def component(folder):
    return run(folder, ROOT / "templates" / "memory.yml", "--skip", "before_script", "--context", "inputs.tests=tests", "--context", "inputs.program=python src/train.py")


def test_steps(tmp_path):
    code, output = action(same := repository(tmp_path / "same", 1024, "4MiB"))
    assert code == 0 and "::error" not in output and "1 passed" in output, output
    assert "--- Comment: skipped" in output and "--- Install: not run here" in output, output
    code, output = action(wider := repository(tmp_path / "wider", 2048, "4MiB"))
    assert code == 1 and re.search(r"^::error file=src/train\.py,line=2,title=holds more memory::.*parameters", output, re.M), output
    assert "--- Peaks: exit code 1" in output and "--- Summary" in output, output
    summary = (wider / "step.md").read_text()
    assert "1 passed" in summary and "### Peaks beside those of origin/main" in summary and "train.py:2" in summary, summary
    code, output = action(repository(tmp_path / "test", 1024, "1MiB"))
    assert code == 1 and "--- Tests: exit code 1" in output and "--- Peaks\n" in output and "--- Peaks: exit" not in output, output
    for folder in (same, wider):
        subprocess.run(["rm", "-rf", folder / "memory"], check=True)
        subprocess.run(["git", "worktree", "prune"], cwd=folder, check=True)
    code, output = component(same)
    assert code == 0 and "1 passed" in (same / "memory" / "summary.md").read_text(), output
    code, output = component(wider)
    assert code == 1 and "train.py:2" in (wider / "memory" / "summary.md").read_text(), output


def test_scripts_are_there():
    named = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                named |= set(re.findall(r"(?<![\w/.])(?:\./)?(ci/\w+)", step.get("run", "")))
    assert {"ci/test", "ci/wheel", "ci/release"} <= named and all((ROOT / name).exists() for name in named), named
