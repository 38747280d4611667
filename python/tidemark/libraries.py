"""`import torch` in pytest itself where NVIDIA's libraries are not installed: the platform's take their place there too, without a GPU. A test's module
may import torch at its head, and `torch.cuda.is_available()` is False in ordinary tests, as with NVIDIA's libraries and no GPU."""
from __future__ import annotations

import contextlib
import ctypes
import glob
import importlib.machinery
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tidemark.executable import executable
from tidemark.verdict import Misuse


class Finder:
    """Stands before Python's finders until torch is looked for, and finds nothing itself."""

    def find_spec(self, name: str, path: Any = None, target: object | None = None) -> None:
        if name == "torch" and self in sys.meta_path:
            sys.meta_path.remove(self)
            spec = importlib.machinery.PathFinder.find_spec("torch")
            if spec and spec.submodule_search_locations and are_missing(list(spec.submodule_search_locations)[0]):
                libraries, problem = platforms()
                if not libraries or not load(libraries):
                    print(f"tidemark: NVIDIA's libraries are not installed, and tidemark's do not take their place: {problem}", file=sys.stderr)


def wait_for_torch() -> None:
    if "torch" not in sys.modules and not os.environ.get("TIDEMARK_EXEC"):
        sys.meta_path.insert(0, Finder())


def are_missing(torch: str) -> bool:
    """That this is a torch with CUDA and cuDNN, which it always needs, is neither installed for Python nor for the machine."""
    if not os.path.exists(os.path.join(torch, "lib", "libtorch_cuda.so")):
        return False
    places = [os.path.join(torch, "lib"), os.path.join(sys.prefix, "lib"), *(os.path.join(glob.escape(place), "nvidia", "*", "lib") for place in sys.path)]
    return not any(glob.glob(os.path.join(place, "libcudnn.so*")) for place in places) and not can_be_loaded("libcudnn.so.9")


def can_be_loaded(library: str) -> bool:
    try:
        return bool(ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL))
    except OSError:
        return False


def platforms() -> tuple[list[str], str]:
    """(the platform's libraries for this Python's torch, what is wrong where there are none)"""
    try:
        script = os.path.join(os.path.dirname(os.path.realpath(executable())), "virtual", "python", "tidemark_wheel.py")
    except Misuse as error:
        return [], str(error)
    done = subprocess.run([sys.executable, script, "--check"], stdout=subprocess.PIPE, text=True, check=False)
    answer = done.stdout.rpartition("tidemark-check:")[2]
    if done.returncode != 0 or not answer:
        return [], f"{script} does not answer"
    answer = json.loads(answer)
    return answer.get("libraries", []), f"{sys.executable} {answer.get('problem', 'cannot load them')}"


def prepare(config: pytest.Config) -> None:
    """Has the platform's libraries for this Python's torch prepared, where they are not yet, before the time of a test runs. The terminal shows how far it is."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        platforms()


def load(libraries: list[str]) -> bool:
    """Loads them, each after those that it needs, and lets the virtual device know that this process has no GPU. False where one cannot be loaded."""
    before = os.environ.get("TIDEMARK_DEVICES")
    os.environ["TIDEMARK_DEVICES"] = "0"  # read by the first call below
    try:
        while libraries:
            left = [library for library in libraries if not can_be_loaded(library)]
            if len(left) == len(libraries):
                return False
            libraries = left
        ctypes.CDLL(None).cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))
        return True
    finally:
        del os.environ["TIDEMARK_DEVICES"]
        if before is not None:
            os.environ["TIDEMARK_DEVICES"] = before
