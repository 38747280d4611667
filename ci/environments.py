"""For scripts that run programs under `tidemark exec`: the executable, and Python environments that are made once and kept."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

# What torch imports of other packages. NVIDIA's are left out: the platform stands in place of all their libraries.
WITH_TORCH = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy"]

# The last release of each minor version of torch that tidemark exec is tried with, the newest first.
VERSIONS = ["2.15.0", "2.14.1", "2.13.0", "2.12.1", "2.11.0", "2.10.0", "2.9.1", "2.8.0", "2.7.1", "2.6.0", "2.5.1", "2.4.1"]

ROOT = Path(__file__).resolve().parent.parent
TIDEMARK = os.environ.get("TIDEMARK_BIN", str(ROOT / "build" / os.environ.get("TIDEMARK_PRESET", "dev") / "tidemark"))


class NoEnvironment(Exception):
    pass


class NotHere(Exception):
    """A source that only the user has, and has not named."""


def stop(text, code):
    """Ends the script with one line, which names it."""
    print(f"error: {Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    sys.exit(code)


def need_tidemark():
    """Ends the script with exit code 3 where there is no executable."""
    if not os.access(TIDEMARK, os.X_OK):
        print(f"error: {TIDEMARK} cannot be run: build it first (ci/build dev tidemark), or set TIDEMARK_BIN", file=sys.stderr)
        sys.exit(3)


def run(*command, **environment):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        raise NoEnvironment(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def pip_of(python):
    """The words that install into an environment; TIDEMARK_PYTHON (python3) has pip."""
    return [os.environ.get("TIDEMARK_PYTHON", "python3"), "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]


def environment(folder: Path, torch: str, then=None) -> Path:
    """The Python of an environment in this folder with this torch, made where it is not there. `then` is called with it and the
    words of its pip before it counts as ready. TIDEMARK_PYTHON (python3) makes it."""
    python = folder / "bin" / "python"
    pip = pip_of(python)
    if not (folder / "ready").exists():
        print(f"bringing torch {torch} into {folder.name}", file=sys.stderr, flush=True)
        run(pip[0], "-m", "venv", "--without-pip", folder)
        run(*pip, "--no-deps", f"torch==={torch}")  # not "+cpu"
        run(*pip, *WITH_TORCH)
        if then:
            then(python, pip)
        (folder / "ready").touch()
    return python


def cuda_headers(python, pip):
    cuda = facts(python)["cuda"]
    if cuda is None:
        raise NoEnvironment(f"torch {facts(python)['torch']} is a wheel without CUDA")
    major, minor = cuda.split(".")[:2]
    if int(major) == 12:
        run(*pip, "--no-deps", f"nvidia-cuda-runtime-cu12=={major}.{minor}.*")


def compiled_parts(python, pip):
    """Triton, as this torch asks for it (before 3.3 it imports setuptools), and the 8-bit optimizers of bitsandbytes (which import packaging)."""
    metadata = next(python.parent.parent.glob("lib/python*/site-packages/torch-*.dist-info")) / "METADATA"
    triton = next((re.match(r"Requires-Dist: (triton)\s*\(?([^;)]*)", line) for line in metadata.read_text().splitlines() if line.startswith("Requires-Dist: triton")), None)
    for package in [triton[1] + triton[2].strip()] if triton else [], ["setuptools", "packaging", "bitsandbytes"]:
        if package:
            run(*pip, "--no-deps", *package)


def facts(python):
    code = ("import importlib.machinery as m, json, os, platform\nsaid = {}\n"
            "exec(open(os.path.join(m.PathFinder.find_spec('torch').submodule_search_locations[0], 'version.py')).read(), said)\n"
            "print(json.dumps({'cuda': said['cuda'], 'torch': said['__version__'], 'python': platform.python_version()}))")
    return json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)


def wheels() -> Path:
    return Path(os.environ.get("TIDEMARK_WHEELS", "tidemark-wheels")).absolute()


def wheel(version: str, compiled: bool = False) -> Path:
    """The Python of an environment with this torch and what the platform needs beside it, in TIDEMARK_WHEELS (tidemark-wheels). With `compiled` also
    Triton and bitsandbytes."""
    python = environment(wheels() / version, version, cuda_headers)
    ready = wheels() / version / "compiled"
    if compiled and not ready.exists():
        print(f"bringing Triton and bitsandbytes for torch {version}", file=sys.stderr, flush=True)
        compiled_parts(python, pip_of(python))
        ready.touch()
    return python


def beside(package: str) -> Path:
    """A folder of TIDEMARK_WHEELS with this package, without what it asks for: "fairscale==0.4.13" of the registry; or "nanotron@4eb520fd", the sources
    of that commit in the git repository that TIDEMARK_NANOTRON names."""
    name, _, commit = package.partition("@")
    if commit:
        return sources(name, commit)
    folder = wheels() / package.replace("==", "-")
    if not (folder / "ready").exists():
        print(f"bringing {package}", file=sys.stderr, flush=True)
        run(os.environ.get("TIDEMARK_PYTHON", "python3"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade",
            "--target", folder, package)
        (folder / "ready").touch()
    return folder


def sources(name, commit):
    variable = f"TIDEMARK_{name.upper()}"
    repository = os.environ.get(variable)
    if not repository:
        raise NotHere(f"set {variable} to a git repository of {name} that has the commit {commit}")
    folder = wheels() / f"{name}-{commit}"
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / "sources.tar"
        run("git", "-C", repository, "archive", f"--output={archive}", commit, "src")
        run("tar", "-xf", archive, "-C", folder)
        archive.unlink()
        (folder / "ready").touch()
    return folder / "src"
