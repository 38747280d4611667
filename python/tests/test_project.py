"""Settings of a project, in [tool.tidemark] of its pyproject.toml: the command and the tests have them, and flags and decorators come first."""
import os
import subprocess
import sys

import pytest
from test_outcomes import exec_server, run

SETTINGS = '[project]\nname = "p"\n[tool.tidemark]\ngpu = "l4-24g"\ncapacity = "3GiB"\nschedule = "lagging"\nmode = "math"\ntimeout = 200\n'
PROGRAM = "import os, torch\nprint(torch.cuda.get_device_name(), torch.cuda.mem_get_info()[1] >> 20, os.environ['TIDEMARK_MODE'], os.environ['TIDEMARK_SCHEDULE'], os.environ.get('TIDEMARK_TIMEOUT'))\n"
TEST = """import os, tidemark, torch
def test_of_the_project(memory):
    assert memory.described()["capacity"] == 3 << 30 and memory.described()["mode"] == "math" and memory.described()["schedule"] == "lagging"
@tidemark.capacity("5GiB")
@tidemark.mode("shapes")
def test_its_own(memory):
    assert memory.described()["capacity"] == 5 << 30 and memory.described()["mode"] == "shapes" and memory.described()["gpu"] == "l4-24g"
"""


def command(folder, *flags):
    done = subprocess.run([os.environ["TIDEMARK"], "exec", *flags, "--", sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=folder,
                          env=exec_server.served(os.environ))
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "below").mkdir()
    return tmp_path


def test_command(project):
    code, output, error = command(project / "below")
    assert code == 0 and output.endswith("3072 math lagging 200") and "L4" in output, output + error
    assert f"tidemark: {project}/pyproject.toml: gpu = l4-24g, capacity = 3GiB, schedule = lagging, mode = math, timeout = 200" in error
    assert command(project, "--mode", "shapes", "--schedule", "instant", "--capacity", "5GiB", "--gpu", "h100-80g")[1].endswith("5120 shapes instant 200")


def test_pytest(project):
    (project / "test_it.py").write_text(TEST)
    outcomes, output, _ = run(project, str(project / "test_it.py"), "--rootdir", project)
    assert {one for one, _ in outcomes.values()} == {"passed"} and len(outcomes) == 2, output


@pytest.mark.parametrize("text, message", [
    ('[tool.tidemark]\ncard = "l4-24g"\n', "[tool.tidemark] has no setting card (there are: gpu, capacity, schedule, mode, timeout)"), ("[tool\n", "pyproject.toml: "),
    ('[tool.tidemark]\nmode = "fast"\n', "fast"), ('[tool.tidemark]\ntimeout = "60"\n', "timeout"), ("[tool]\ntidemark = 1\n", "must be a table"),
    ('[tool.tidemark]\nschedule = ["instant"]\n', "schedule"), ('[tool.tidemark]\ngpu = "abacus"\n', "abacus"),
])
# night: a program and a pytest for each mistake; test_command and test_pytest read settings by day
def test_mistakes(tmp_path, text, message):
    (tmp_path / "pyproject.toml").write_text(text)
    code, _, error = command(tmp_path)
    assert code == 2 and message in error and len([line for line in error.splitlines() if line.startswith("error: ")]) == 1, error
    (tmp_path / "test_it.py").write_text("def test_it(memory):\n    pass\n")
    outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"), "--rootdir", tmp_path, "-c", os.devnull)
    assert outcomes["test_it"][0] == "error" and message in outcomes["test_it"][1], output


# night: one more pytest; test_pytest reads a project by day
def test_other_projects_without_the_table(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "p"\n[tool.other]\nx = [1,\n 2]\n')
    assert command(tmp_path)[0] == 0
