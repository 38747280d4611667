"""The command `tidemark` of the wheel: becomes the executable that the wheel brings. Its scenarios (run, list, bench) are linked to
one version of PyTorch, whose libraries are found here, where Python finds them."""
from __future__ import annotations

import glob
import importlib.util
import json
import os
import re
import sys

from tidemark.executable import executable
from tidemark.verdict import Misuse
from tidemark.version import other_distribution


def folder_of(module: str) -> str:
    """The folder of an installed module, which is not imported; "" without it."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return ""
    return list(spec.submodule_search_locations)[0] if spec and spec.submodule_search_locations else ""


def why_no_scenarios(torch: str, built: dict[str, str]) -> str:
    """Why the scenarios cannot run on the PyTorch in this folder, in a line; "" where they can."""
    wanted = f"torch {built['torch'].split('+')[0]} for CUDA {built['cuda']}"
    install = f"pip install torch=={built['torch'].split('+')[0]}"
    if not torch:
        return f"the scenarios need {wanted}, and {sys.executable} has no torch: {install}"
    with open(os.path.join(torch, "version.py"), encoding="utf-8") as file:
        facts = dict(re.findall(r"^(__version__|cuda)\b[^=]*= *'([^']*)'", file.read(), re.M))
    version, cuda = facts.get("__version__", "unknown"), facts.get("cuda")
    if (version.split("+")[0], cuda) != (built["torch"].split("+")[0], built["cuda"]):
        return f"the scenarios of this installation are for {wanted}, and {sys.executable} has torch {version} ({'CUDA ' + cuda if cuda else 'without CUDA'}): {install}"
    return ""


def set_places(platform: str) -> None:
    """Lets the scenarios find PyTorch's libraries and ZeroMQ's, or says why there are none."""
    with open(os.path.join(platform, "virtual", "python", "built.json"), encoding="utf-8") as file:
        built = json.load(file)
    torch = folder_of("torch")
    os.environ.setdefault("TIDEMARK_PYTHON", sys.executable)  # of --executor
    os.environ["TIDEMARK_NO_SCENARIOS"] = why_no_scenarios(torch, built)
    if os.environ["TIDEMARK_NO_SCENARIOS"]:
        return
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.path.join(torch, "lib"), os.environ.get("LD_LIBRARY_PATH")]))
    zmq = os.path.join(os.path.dirname(folder_of("zmq")), "pyzmq.libs", "libzmq*.so*")
    for library in glob.glob(zmq):
        os.environ.setdefault("TIDEMARK_LIBZMQ", library)


def main() -> None:
    """Becomes the executable; its exit code is then that of the command. Exit code 1 with one line where there is none."""
    if warning := other_distribution():
        print(f"tidemark: {warning}", file=sys.stderr)
    try:
        path = executable(on_path=False)
    except Misuse as error:
        sys.exit(f"error: {error}")
    platform = os.path.dirname(path)
    if os.path.exists(os.path.join(platform, "tidemark_scenarios")) and sys.argv[1:2] not in (["exec"], ["fit"], ["advise"]):
        set_places(platform)
    os.execv(path, ["tidemark", *sys.argv[1:]])
