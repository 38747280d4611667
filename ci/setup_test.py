"""ci/setup --cuda on a stand-in for pip that makes small wheels: what is unpacked where, that nothing is done twice, that an
interrupted download goes on where it was, that nothing half-made is ever in place, and when nothing is brought at all. ci/setup with
an installed torch: another version than that of ci/wheels.txt is refused. Which of several packages is installed, of what a stand-in
for apt has."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in import executable

CI = Path(__file__).resolve().parent
PIP = f"""#!{sys.executable}
import os, sys, zipfile
words = sys.argv[1:]
if words[0] == "-c":
    print(os.environ.get("PYTHON", "3.11"))
    sys.exit(0)
if words[:2] != ["-m", "pip"] or "--version" in words:
    sys.exit(0)
folder = words[words.index("-d") + 1]
for line in open(words[words.index("-r") + 1]):
    name = line.split("==")[0]
    open(os.environ["CALLS"], "a").write(name + "\\n")
    if "--require-hashes" not in words or "--hash=sha256:" not in line or name == os.environ.get("BROKEN") or os.environ.get("ABI", "cp311") not in words:
        sys.exit(1)
    place = "nvidia/" + ("nccl" if "nccl" in name else "cudnn" if "cudnn" in name else "cu13")
    with zipfile.ZipFile(folder + "/" + name.replace("-", "_") + "-1-py3-none-any.whl", "w") as wheel:
        if name != "nvidia-nvtx":  # one that has no library
            wheel.writestr(place + "/lib/lib" + name + ".so.1", name)
        wheel.writestr(place + "/include/" + name + ".h", "no library")
"""


def version(name):
    return re.search(rf"^{name}==(\S+)", (CI / "wheels.txt").read_text(), re.M).group(1)


PINS = [line.split("==")[0] for line in (CI / "cuda_wheels.txt").read_text().splitlines() if not line.startswith("#")]


@pytest.fixture
def work(tmp_path):
    (tmp_path / "ci").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("setup", "environment.sh", "cuda_wheels.txt", "wheels.txt", "packages.txt"):
        shutil.copy(CI / name, tmp_path / "ci" / name)
    executable(tmp_path / "bin" / "python3", PIP)
    executable(tmp_path / "bin" / "dpkg-query", "#!/bin/sh\necho install ok installed\n")
    return tmp_path


@pytest.fixture
def setup(work):
    """ci/setup: its exit code, its output, and the packages that pip was to download."""
    calls = work / "calls"

    def setup(what: str = "--cuda", **extra: str) -> tuple[int, str, list[str]]:
        calls.write_text("")
        env = {**os.environ, "PATH": f"{work}/bin:{os.environ['PATH']}", "CALLS": str(calls), "TIDEMARK_DEPS": str(work / "deps"), **extra}
        if "TIDEMARK_TORCH" not in extra:
            env.pop("TIDEMARK_TORCH", None)
        run = subprocess.run([work / "ci" / "setup", what], env=env, capture_output=True, text=True, timeout=100, check=False)
        return run.returncode, run.stdout + run.stderr, calls.read_text().split()

    return setup


def test_pins():
    for must in ("nvidia-cublas", "nvidia-cuda-runtime", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "nvidia-nvjitlink", "nvidia-nvshmem-cu13"):
        assert must in PINS, f"{must} is pinned"
    torchs = {line for line in (CI / "wheels.txt").read_text().splitlines() if line.startswith(("nvidia-cuda-runtime", "nvidia-nccl"))}
    assert torchs <= set((CI / "cuda_wheels.txt").read_text().splitlines()), "the headers are those of the libraries"
    for name in ("torch", "markupsafe", "numpy"):
        pins_of = re.search(rf"^{name}==.*", (CI / "wheels.txt").read_text(), re.M).group().count("--hash=sha256:")
        assert pins_of == 8, f"{name} is pinned for 3.11 to 3.14, of both processors: {pins_of}"


# night: downloads of a stand-in for pip; ./ci/test sets up by day
def test_cuda(work, setup):
    deps = work / "deps"
    libraries = lambda: {path.name for path in deps.glob("nvidia/*/lib/*")}
    everything = {f"lib{name}.so.1" for name in PINS if name != "nvidia-nvtx"}

    code, output, called = setup(BROKEN="nvidia-cufft")
    assert code == 3 and "nvidia-cufft" in output and called[-1] == "nvidia-cufft", f"a download that fails is said: {code} {output}"
    assert not (deps / "nvidia").exists(), "nothing half-made is in place"
    code, output, called = setup()
    assert code == 0 and called == PINS[PINS.index("nvidia-cufft"):], f"it goes on where it was: {code} {called}"
    assert libraries() == everything, f"all libraries are there: {sorted(libraries() ^ everything)}"
    assert not list(deps.glob("nvidia/*/include")), "headers are not unpacked"
    assert sorted(p.name for p in deps.iterdir()) == ["nvidia"], "nothing is left beside them"
    assert setup() == (0, "", []), "with everything there nothing is done and nothing said"

    for python, abi in (("3.10", "cp311"), ("3.13", "cp313"), ("3.15", "cp311")):
        shutil.rmtree(deps / "nvidia")
        code, output, _ = setup(PYTHON=python, ABI=abi)
        assert code == 0, f"Python {python} has the wheels of {abi}: {code} {output}"

    (work / "ci" / "cuda_wheels.txt").write_text("nvidia-other==1 --hash=sha256:0\n")
    code, output, called = setup()
    assert code == 0 and called == ["nvidia-other"] and libraries() == {"libnvidia-other.so.1"}, f"other pins replace them: {code} {output}"


@pytest.fixture
def torch(work):
    torch = work / "site" / "torch"
    torch.mkdir(parents=True)
    return torch


# night: sets up beside each of several torchs; ./ci/test sets up by day
def test_beside_an_installed_torch(work, setup, torch):
    """NVIDIA's libraries beside it do; where one of them is not there, all are brought."""
    (work / "ci" / "cuda_wheels.txt").write_text("nvidia-other==1 --hash=sha256:0\n")
    beside = [work / "site" / "nvidia" / name for name in ("cudnn/lib/libcudnn.so.9", "nccl/lib/libnccl.so.2", "cu13/lib/libcublas.so.13")]
    for path in beside:
        path.parent.mkdir(parents=True)
        path.write_text("")
    for path in beside:
        shutil.rmtree(work / "deps", ignore_errors=True)
        path.rename(work / "away")
        code, output, called = setup(TIDEMARK_TORCH=str(torch))
        assert code == 0 and called == ["nvidia-other"], f"without {path.name} beside torch they are brought: {code} {output}"
        (work / "away").rename(path)
    shutil.rmtree(work / "deps")
    assert setup(TIDEMARK_TORCH=str(torch)) == (0, "", []), "those beside an installed torch do"
    (work / "link").symlink_to(torch)
    assert setup(TIDEMARK_TORCH=str(work / "link")) == (0, "", []), "also through a link"


# night: sets up beside another torch; ./ci/test sets up by day
def test_another_torch(setup, torch):
    own = f"{version('torch')}+cu{''.join(version('nvidia-cuda-runtime').split('.')[:2])}"
    for other in (own.split("+")[0], own + "1", own.replace(".", "x")):
        (torch / "version.py").write_text(f"__version__ = '{other}'\n")
        code, output, called = setup("compiler", TIDEMARK_TORCH=str(torch))
        assert code == 2 and not called and f"is not a torch {own} " in output, f"torch {other} in place of {own} is refused: {code} {output} {called}"
    (torch / "version.py").write_text(f"__version__ = '{own}'\n")
    code, output, called = setup("compiler", TIDEMARK_TORCH=str(torch), BROKEN="nvidia-cuda-runtime")
    assert code == 3 and called == ["nvidia-cuda-runtime"], f"torch {own} is taken, and the headers are brought: {code} {output} {called}"


# night: sets up with packages that a machine may have or lack; ./ci/test sets up by day
def test_packages(work):
    """Of clang-19|...|clang-16 the first that is there: none is installed where a later one is."""
    for name, text in (("dpkg-query", 'case " $HAS " in *" ${@: -1} "*) echo install ok installed ;; esac'), ("apt-cache", 'case " $KNOWS " in *" ${@: -1} "*) ;; *) exit 100 ;; esac'),
                       ("apt-get", '[ "$1" = update ] || { shift 4; echo "$@" >"$CALLS"; exit 1; }'), ("id", "echo 0"), ("python3", "echo 3.11"), ("unzip", "")):
        executable(work / "bin" / name, f"#!/bin/bash\n{text}\n")
    every = [line for line in (CI / "packages.txt").read_text().splitlines() if not line.startswith("clang")]
    for has, knows, installs in (("", "clang-16 clang-19", "clang-19"), ("", "clang-16 clang-18", "clang-18"), ("", "clang-15", "clang-16"), ("clang-16", "clang-19", "")):
        (work / "calls").write_text("")
        env = {**os.environ, "PATH": f"{work}/bin:{os.environ['PATH']}", "CALLS": str(work / "calls"), "TIDEMARK_DEPS": str(work / "deps"),
               "HAS": " ".join([*every, has]), "KNOWS": knows}
        subprocess.run([work / "ci" / "setup", "sanitizers"], env=env, capture_output=True, text=True, timeout=100, check=False)
        got = (work / "calls").read_text().split()
        assert got == [installs] if installs else not any(word.startswith("clang") for word in got), f"installed {has}, known {knows}: {got}"
