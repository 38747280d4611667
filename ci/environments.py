"""For scripts that run programs below `tidemark exec`: the executable, and Python environments that are made once and kept."""
import os
import subprocess
import sys
from pathlib import Path

# What torch imports of other packages. NVIDIA's are left out: the platform stands in place of all their libraries.
WITH_TORCH = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy"]

ROOT = Path(__file__).resolve().parent.parent
TIDEMARK = os.environ.get("TIDEMARK_BIN", str(ROOT / "build" / os.environ.get("TIDEMARK_PRESET", "dev") / "tidemark"))


class NoEnvironment(Exception):
    pass


def need_tidemark():
    """Ends the script with exit code 3 where there is no executable."""
    if not os.access(TIDEMARK, os.X_OK):
        print(f"error: {TIDEMARK} cannot be run: build it first (ci/build dev tidemark), or set TIDEMARK_BIN", file=sys.stderr)
        sys.exit(3)


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
