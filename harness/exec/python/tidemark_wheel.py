"""The torch of a Python: which it is, whether tidemark supports it, and its virtual libraries. `tidemark_wheel.py --check` prints them after
`tidemark-check:`, or what is wrong with it."""
import glob
import importlib.machinery
import json
import os
import re
import sys
import sysconfig

import tidemark_files  # noqa: F401  # for prepare.py: while it runs this folder is not on the path, since a folder named torch could lie in it
import tidemark_releases

OLDEST, MAJORS = (2, 4), ("12", "13")  # of torch and of CUDA


def built():
    """The build's own facts: the torch that its libraries belong to, where it and its sources are (in the wheel: beside the libraries)."""
    virtual = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(virtual, "python", "built.json"), encoding="utf-8") as file:
        facts = json.load(file)
    places = {key: os.path.normpath(os.path.join(virtual, facts[key])) for key in ("source", "cuda_include")}
    return {**facts, **places, "virtual": virtual}


def facts_of(folders):
    """(folder, version, CUDA) of the torch package in these folders, or of none."""
    for folder in folders or ():
        path, variables = os.path.join(folder, "version.py"), {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                exec(compile(file.read(), path, "exec"), variables)
            return folder, str(variables.get("__version__")), variables.get("cuda")
    return None, None, None


def release(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def lent(own, version):
    """How a Python without torch uses the one that the build has, if that is for this Python; an empty text else. The wheel has none."""
    if "site" not in own or not glob.glob(os.path.join(own["site"], "torch", f"_C.cpython-{sys.version_info[0]}{sys.version_info[1]}-*")):
        return ""
    return f"PYTHONPATH={own['site']} lends it the torch {version} of this build; or "


def problem(version, cuda):
    """The reason why a torch cannot be used, or None."""
    own, tried = built(), tidemark_releases.span(tidemark_releases.outcomes())
    plain = own["torch"].split("+")[0]
    place = "" if sys.prefix != sys.base_prefix or not os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")) else "in an environment of python3 -m venv: "
    wanted = f"install torch {plain} ({place}python3 -m pip install torch=={plain}), which needs no preparation; it may be {tried}, a wheel of CUDA {' or '.join(MAJORS)}"
    if not version:
        return "has no torch: " + lent(own, plain) + wanted
    if not cuda:
        return f"has torch {version}, a wheel without CUDA: {wanted}"
    if str(cuda).split(".")[0] not in MAJORS:
        return f"has torch {version} of CUDA {cuda}, which tidemark does not support (it supports {' and '.join(MAJORS)}): {wanted}"
    if release(version) < OLDEST:
        return f"has torch {version}, and tidemark supports none before {'.'.join(map(str, OLDEST))}: {wanted}"
    return None


def libraries_for(folder, version, cuda):
    """The operator layer for a torch, and the libraries that its processes need from their start. Raises where there are none."""
    own = built()
    if version == own["torch"]:
        place, libraries = own["virtual"], sorted(glob.glob(os.path.join(own["virtual"], "*.so.*")))
    else:
        sys.path.insert(0, os.path.join(own["source"], "harness", "virtual", "wheels"))
        sys.dont_write_bytecode = True  # into the sources
        try:
            import prepare
        except ImportError as error:
            raise RuntimeError(f"its virtual libraries are compiled from tidemark's sources, and these are not in {own['source']}") from error
        place, libraries = prepare.prepare(folder, version, cuda, own, lambda text: print(text, end="", file=sys.stderr, flush=True))
    return {"torch": version, "cuda": cuda, "folder": folder, "layer": os.path.join(place, "libtidemark_operators.so"), "libraries": libraries}


def check():
    """The answer to `tidemark exec` about a program's Python."""
    spec = importlib.machinery.PathFinder.find_spec("torch")
    folder, version, cuda = facts_of(spec.submodule_search_locations if spec else None)
    wrong = problem(version, cuda)
    if wrong:
        return {"problem": wrong}
    untried = tidemark_releases.untried(version)
    try:
        libraries = libraries_for(folder, version, cuda)
    except Exception as error:
        return {"problem": f"has torch {version}: {error}" + (f" ({untried})" if untried else "")}
    if untried:
        print("tidemark: " + untried, file=sys.stderr)
    return libraries


if __name__ == "__main__" and sys.argv[1:] == ["--check"]:
    sys.path.pop(0)
    try:
        print("tidemark-check:" + json.dumps(check()), flush=True)
    except KeyboardInterrupt:
        os._exit(130)
    except BrokenPipeError:  # the command that asked was ended
        os._exit(1)
