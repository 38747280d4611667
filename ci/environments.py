"""Python environments that a script makes once and keeps, for programs below `tidemark exec`."""
import os
import subprocess
import sys
from pathlib import Path

# What torch imports of other packages. NVIDIA's are left out: the platform stands in place of all their libraries.
WITH_TORCH = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy"]


class NoEnvironment(Exception):
    pass


def run(*command, **environment):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        raise NoEnvironment(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def environment(folder: Path, torch: str, then=None) -> Path:
    """The Python of an environment in this folder with this torch, made where it is not there. `then` is called with it and the
    words of its pip before it counts as ready. TIDEMARK_PYTHON (python3) makes it."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"bringing torch {torch} into {folder.name}", file=sys.stderr, flush=True)
        base = os.environ.get("TIDEMARK_PYTHON", "python3")
        pip = [base, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
        run(base, "-m", "venv", "--without-pip", folder)
        run(*pip, "--no-deps", f"torch=={torch}")
        run(*pip, *WITH_TORCH)
        if then:
            then(python, pip)
        (folder / "ready").touch()
    return python
