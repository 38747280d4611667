"""The package: annotations, version, `python -m tidemark`, the other project of this name, fixtures that others have too."""
import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_outcomes import run

import tidemark

PACKAGE = Path(tidemark.__file__).parent


def test_every_function_is_annotated():
    missing = []
    for path in sorted(PACKAGE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                words = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *filter(None, (node.args.vararg, node.args.kwarg))]
                bare = [word.arg for word in words if word.annotation is None and word.arg not in ("self", "cls")]
                if bare or node.returns is None:
                    missing.append(f"{path.name}:{node.lineno} {node.name}: {', '.join(bare) or 'what it returns'}")
    assert not missing, "\n".join(missing)
    assert (PACKAGE / "py.typed").exists()


def test_everything_public_has_a_docstring():
    public = [getattr(tidemark, name) for name in tidemark.__all__ if not name.startswith("_")]
    methods = [getattr(one, name) for one in public if isinstance(one, type) and one.__module__.startswith("tidemark") for name in vars(one) if not name.startswith("_")]
    missing = [one for one in (*public, *methods) if callable(one) and not (one.__doc__ or "").strip()]
    assert not missing, missing


# holds: python/README.md, The wheel
def test_one_version():
    of_command = subprocess.run([os.environ["TIDEMARK"], "--version"], capture_output=True, text=True, check=True).stdout
    assert of_command.split()[:2] == ["tidemark", tidemark.__version__], of_command
    of_module = subprocess.run([sys.executable, "-m", "tidemark", "--version"], capture_output=True, text=True, check=True)
    assert of_module.stdout == of_command and of_module.stderr == "", of_module.stderr


@pytest.fixture
def beside_the_other(tmp_path):
    """An environment with the metadata of the other project."""
    facts = tmp_path / "tidemark-0.1.4.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tidemark\nVersion: 0.1.4\n")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}


# night: installs another project of the name
def test_the_other_project_is_named(beside_the_other, tmp_path):
    done = subprocess.run([sys.executable, "-m", "tidemark", "--version"], capture_output=True, text=True, check=True, env=beside_the_other)
    line, = done.stderr.splitlines()
    assert "the distribution tidemark 0.1.4 is installed beside tidemark-gpu" in line and "run `python -m tidemark`, or pip uninstall tidemark" in line
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "tidemark.plugin", "-p", "no:cacheprovider", tmp_path / "test_it.py"], capture_output=True, text=True, check=True, env=beside_the_other, cwd=tmp_path)
    assert done.stdout.count("the distribution tidemark 0.1.4 is installed") == 1, done.stdout


def test_another_system(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    from tidemark.executable import executable

    with pytest.raises(tidemark.Misuse, match="runs on Linux alone, and this is darwin: use the image"):
        executable()


# night: one more pytest for another plugin
def test_fixtures_of_another_plugin_come_first(tmp_path):
    """The other plugin is there before tidemark's, which would hide its fixtures, and after it."""
    (tmp_path / "other.py").write_text("import pytest\n@pytest.fixture\ndef memory():\n    return 'of the other'\n@pytest.fixture\ndef world():\n    return 'of the other'\n")
    (tmp_path / "test_it.py").write_text("import os\ndef test_theirs(memory, world):\n    assert memory == world == 'of the other' and 'TIDEMARK_EXEC' not in os.environ\n"
                                         "def test_ours(tidemark_memory):\n    assert tidemark_memory.held() == 0\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}
    for plugins in (("other", "tidemark.plugin"), ("tidemark.plugin", "other")):
        words = [word for name in plugins for word in ("-p", name)]
        outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"), *words, environment=environment, plugin=False)
        assert outcomes == {"test_theirs": ("passed", ""), "test_ours": ("passed", "")}, output


def test_annotations_of_a_test(tmp_path):
    (tmp_path / "test_it.py").write_text("from tidemark import Memory, World\ndef test_it(memory: Memory, world: World) -> None:\n    assert isinstance(memory, Memory) and isinstance(world, World)\n")
    outcomes, output, _ = run(tmp_path, str(tmp_path / "test_it.py"))
    assert outcomes["test_it"][0] == "passed", output
