"""Needs of PyTorch's shipped libraries from NVIDIA's: sonames and functions, read with readelf and nm."""
import json
import os
import re
import subprocess

# Names of libraries that belong to the system or to PyTorch, hence to none here.
SYSTEM = re.compile(r"lib(c|m|z|dl|rt|pthread|stdc\+\+|gcc_s|gomp|torch\w*|c10\w*|shm|caffe2\w*)\.so|ld-linux")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def load_table(path):
    with open(path) as file:
        return json.load(file)["libraries"]


def shipped_libraries(folder):
    return [os.path.join(folder, f) for f in sorted(os.listdir(folder)) if re.search(r"\.so(\.\d+)*$", f)]


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", path))


def symbols(path, which):
    """(name, version or '') of a library's dynamic symbols; weak undefined ones need nobody."""
    versioned = set()
    for line in run("nm", "-D", which, path).splitlines():
        *_, kind, symbol = line.split()
        if which == "--undefined-only" and kind in "wv":
            continue
        name, _, version = symbol.partition("@")
        versioned.add((name, version.lstrip("@")))
    return versioned


def home_of(name, table):
    """The library of a function without a version symbol: by the longest prefix; None when it is not NVIDIA's."""
    best = max(((len(p), soname) for soname, entry in table.items() for p in entry["prefixes"]
                if name.startswith(p) and (p.endswith("_") or re.match("[A-Z]", name[len(p):]))), default=None)
    return best[1] if best else None


def wanted(folder, table):
    """({soname: {(function, version)}}, [what has no place in the table])."""
    result, homeless, own = {}, [], set()
    libraries = shipped_libraries(folder)
    beside = set(map(os.path.basename, libraries))
    for library in libraries:
        own |= {name for name, _ in symbols(library, "--defined-only")}
    for library in libraries:
        sonames = [s for s in needed(library) if not SYSTEM.match(s) and s not in beside]
        for soname in sonames:
            if soname not in table:
                homeless.append(f"{soname} (NEEDED by {os.path.basename(library)})")
            result.setdefault(soname, set())
        for name, version in symbols(library, "--undefined-only"):
            if name in own:
                continue
            soname = version if version in table else home_of(name, table)
            if soname:
                result.setdefault(soname, set()).add((name, version))
            elif re.match(r"lib(cu|nv|nccl)", version):
                homeless.append(f"{name}@{version} (in {os.path.basename(library)})")
    return result, sorted(set(homeless))
