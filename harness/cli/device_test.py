#!/usr/bin/env python3
"""device_test.py TIDEMARK DRIVER [NVIDIA]: which libraries lie below PyTorch for each --device, and what is said where the
machine does not suit. DRIVER is a stand-in for the driver's library; copies of the virtual platform's libraries stand in for
NVIDIA's, and NVIDIA's own where the folder NVIDIA (of ci/setup --cuda) is there."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from checks import check, in_scratch, without_mpirun

TIDEMARK, DRIVER = (Path(word).resolve() for word in sys.argv[1:3])
NVIDIA = Path(sys.argv[3]) if len(sys.argv) > 3 else None
VIRTUAL = TIDEMARK.parent / "virtual"
RUN = ("run", "fsdp_prefetch/stash", "--size", "smoke", "--mode", "shapes", "--steps", "2", "--ranks", "2", "--races", "off", "--details", "none")

class Said:
    def __init__(self, work: Path, *words: str, launcher: tuple[str, ...] = (), **extra: str):
        for name in ("out", "tidemark-out"):
            shutil.rmtree(work / name, ignore_errors=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEMARK_", "STAND_IN_", "CUDA_"))}
        begin = time.monotonic()
        run = subprocess.run([*launcher, TIDEMARK, *words], env={**clean, "TIDEMARK_CUDA_DRIVER": str(DRIVER), **extra}, cwd=work,
                             capture_output=True, text=True, timeout=200, check=False)
        self.code, self.out, self.err, self.seconds = run.returncode, run.stdout, without_mpirun(run.stderr), time.monotonic() - begin

    def refuses(self, code: int, says: str, what: str) -> None:
        check(self.code == code, f"{what}: exit code {self.code}, not {code}: {self.err}")
        check(says in self.err and self.err.count("\n") == 1, f"{what}: not one line with '{says}': {self.err}")
        check(self.seconds < 60, f"{what}: took {self.seconds:.0f} s")


def test(work: Path) -> None:
    said = lambda *words, **extra: Said(work, *words, **extra)
    cuda, libraries = ("run", "--device", "cuda"), {"TIDEMARK_CUDA_LIBRARIES": str(work / "stand-ins")}

    needed = subprocess.run(["readelf", "-d", f"{TIDEMARK}_scenarios"], capture_output=True, text=True, check=True).stdout
    check("libcudart.so.13" in needed and "libtidemark_" not in needed, "on a GPU nothing of the virtual device may be loaded")

    # Attention's kernels are the device's: their tiles in single precision, and flash attention.
    attention = ("run", "tp_buffer_reuse", "--device", "virtual", *RUN[2:], "--schedule", "instant", "--gpu")
    for gpu in ("t4-16g", "a100-80g"):
        run = said(*attention, gpu, *(word for value in ("hidden=288", "heads=4", "kv_heads=2") for word in ("--set", value)))
        check(run.code == 0, f"heads of 72 elements on {gpu}: {run.code} {run.out[-800:]} {run.err}")
    said(*attention, "t4-16g", "--set", "precision=bf16").refuses(2, "flash attention needs compute capability 8.0, this GPU has 7.5", "bf16 on a T4")
    heads = [word for value in ("hidden=832", "heads=4", "kv_heads=4", "precision=bf16") for word in ("--set", value)]
    for gpu in ("l40s-48g", "rtx5090-32g"):
        said(*attention, gpu, *heads).refuses(2, "flash attention has no backward for heads of 208 elements", f"heads of 208 elements on {gpu}")
    check(said(*attention, "a100-80g", *heads).code == 0, "heads of 208 elements on an A100")

    # Refused before anything is loaded: the driver, then the libraries.
    nothing = {"TIDEMARK_CUDA_DRIVER": str(work / "nosuch")}
    said(*cuda, **nothing).refuses(77, "no NVIDIA driver", "no driver")
    said(*cuda, STAND_IN_VERSION="12040").refuses(77, "serves CUDA 12.4 at most", "an old driver")
    said(*cuda, STAND_IN_GPUS="0").refuses(77, "finds no GPU", "no GPU")
    said(*cuda, STAND_IN_GPUS="0", CUDA_VISIBLE_DEVICES="").refuses(2, "CUDA_VISIBLE_DEVICES=", "a hidden GPU")
    said(*cuda, STAND_IN_ERROR="803").refuses(3, "restart", "a driver of two versions")
    said(*cuda, STAND_IN_ERROR="999").refuses(3, "cuInit: error 999", "a driver that does not start")
    said(*cuda, STAND_IN_ERROR="-1").refuses(3, "does not answer", "a driver that dies")
    said(*cuda, **libraries).refuses(77, "missing: libcublas.so.13", "no libraries")
    two = ("mpirun", "--oversubscribe", "-n", "2")
    said(*cuda, launcher=two, **nothing).refuses(77, "no NVIDIA driver", "under mpirun")

    # auto then takes the virtual platform, and says why, once.
    for extra, why in ((nothing, "no NVIDIA driver"), (libraries, "ci/setup --cuda"), ({"STAND_IN_GPUS": "0"}, "finds no GPU")):
        run = said(*RUN, "--schedule", "instant", "--out", "out", **extra)
        notes = [line for line in run.err.splitlines() if "virtual device (" in line]
        check(run.code == 0 and len(notes) == 1 and why in notes[0], f"auto, {why}: {run.code} {run.err}")
    run = said(*RUN, "--schedule", "instant", "--out", "out", "--device", "virtual", **nothing)
    check(run.code == 0 and "virtual platform" not in run.err, f"what was asked for is not commented on: {run.err}")
    said("run", CUDA_VISIBLE_DEVICES="", **nothing).refuses(2, "not even a virtual one", "a hidden virtual GPU")
    check(said("list", **nothing).err == "", "list needs no device")
    check("note: virtual device (no NVIDIA driver found)\n" in said("--version", **nothing).out, "--version says why it is the virtual platform")

    # With everything there it starts again on the other libraries, in every rank, and on all of them.
    (work / "stand-ins").mkdir()
    for library in VIRTUAL.glob("*.so*"):
        shutil.copy(library, work / "stand-ins" / library.name)
    for folder in ("profiles", "nvml"):
        shutil.copytree(VIRTUAL / folder, work / "stand-ins" / folder)
    names = {p.name for p in VIRTUAL.glob("*.so.*") if not p.name.startswith("libtidemark")}
    both = names | {"libnvidia-ml.so.1"}  # which comes with the driver
    libraries = {**libraries, "TIDEMARK_CUDA_DRIVER": str(work / "stand-ins" / "libcuda.so.1")}
    version = said("--version", **libraries)
    rows = dict(re.findall(r"^(lib\S+) .*?(\w+)$", version.out, re.M))
    check(both <= rows.keys() and all(rows[name] == "NVIDIA" for name in both), f"on the other libraries: {version.out}{version.err}")
    check("note" not in version.out + version.err, f"auto takes the GPU without a word: {version.out}{version.err}")
    run = said("exec", "printenv", "LD_LIBRARY_PATH", TIDEMARK_DEVICE="cuda", **libraries)
    check(run.code == 0 and run.out.startswith(str(work / "stand-ins")), f"exec gives them to another program: {run.code} {run.out}{run.err}")
    said("exec", "printenv", TIDEMARK_DEVICE="cuda", **nothing).refuses(77, "no NVIDIA driver", "exec without a driver")
    said("exec").refuses(2, "no program is given", "exec of nothing")
    said("exec", "/nosuch", **nothing).refuses(2, "/nosuch cannot be started", "exec of what is not there")
    run = said(*RUN, "--schedule", "instant", "--out", "out", "--device", "cuda", LD_LIBRARY_PATH="/nosuch", **libraries)
    check(run.code == 0, f"two ranks on them: {run.code} {run.err}")
    env = json.loads((work / "out" / "report.json").read_text())["run"]["env"] if run.code == 0 else {}
    check(env.get("TIDEMARK_ON") == "cuda", f"the ranks run on them too: {env}")
    version = said("--version", TIDEMARK_COLLECTIVES="staged", **libraries)
    rows = dict(re.findall(r"^(lib\S+) .*?(\w+)$", version.out, re.M))
    check({name: maker for name, maker in rows.items() if maker != "NVIDIA"} == {"libnccl.so.2": "staged"}, f"one NCCL of ours on them: {version.out}{version.err}")
    run = said(*RUN, "--schedule", "instant", "--out", "out", "--device", "cuda", "--collectives", "staged", TIDEMARK_UNKNOWN="nan", **libraries)
    report = json.loads((work / "out" / "report.json").read_text())["run"] if run.code == 0 else {"env": {}}
    check(report["env"].get("TIDEMARK_ON") == "cuda+staged", f"two ranks on it: {run.code} {run.err}")
    check(report["env"].get("CUDA_DEVICE_MAX_CONNECTIONS") == "32", f"streams that wait must not hold up others: {report['env']}")
    check("missing: libnccl.so.2 (" in without(work, "libnccl.so.2", said, *cuda, **libraries).err, "one that is missing is named")
    said(*cuda, LD_PRELOAD=str(VIRTUAL / "libcublas.so.13"), **libraries).refuses(2, "stand in the way", "LD_PRELOAD of the virtual ones")

    # NCCL and PyTorch load NVML by name: on NVIDIA's driver they must not find the virtual one, though its folder may be searched.
    loads = "import ctypes\ntry: ctypes.CDLL('libnvidia-ml.so.1')\nexcept OSError: pass\nprint(open('/proc/self/maps').read())"
    run = subprocess.run([sys.executable, "-c", loads], env={**os.environ, "LD_LIBRARY_PATH": str(VIRTUAL)}, capture_output=True, text=True, check=False)
    check(run.returncode == 0 and str(VIRTUAL) not in run.stdout, f"the virtual NVML is found by name: {run.stdout[-2000:]}{run.stderr}")

    # The virtual platform stays whole where others stand before it.
    mixed = work / "mixed"
    mixed.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):  # what a driver brings along
        shutil.copy(DRIVER, mixed / name)
    version = said("--version", LD_LIBRARY_PATH=str(mixed), TIDEMARK_DEVICE="virtual")
    rows = dict(re.findall(r"^(lib\S+) .*?(\w+)$", version.out, re.M))
    check(both <= rows.keys() and set(rows.values()) == {"virtual"}, f"on the virtual platform: {version.out}{version.err}")
    for name in ("torch",):
        check(re.search(rf"^{name} +\S", version.out, re.M) is not None, f"--version names {name}: {version.out}")
    check(re.search(r"^libcudart\.so\.13 +13\.0 ", version.out, re.M) is not None, f"--version gives versions: {version.out}")
    check("/" not in version.out, f"no path in --version: {version.out}")
    said("run", "--device", "virtual", LD_PRELOAD=str(mixed / "libcuda.so.1")).refuses(2, "stand in its way", "LD_PRELOAD of another")

    if NVIDIA is not None and NVIDIA.is_dir():
        real = said(*cuda, LD_DEBUG="libs")  # NVIDIA's own, which find the stand-in no driver
        check(real.code == 3 and "the CUDA runtime does not start on" in real.err, f"NVIDIA's libraries: {real.code} {real.err[-300:]}")
        loaded = dict((Path(path).name, path) for path in re.findall(r"calling init: (\S+)", real.err))
        check(all(str(NVIDIA) in os.path.realpath(loaded.get(name, "")) for name in names - {"libcuda.so.1"}), f"all are NVIDIA's: {loaded}")
        check(loaded.get("libcuda.so.1") == str(DRIVER), f"the driver's is not the virtual one: {loaded}")
        said(*cuda).refuses(3, "the CUDA runtime does not start on", "NVIDIA's libraries on no driver")


def without(work: Path, name: str, said, *words: str, **extra: str):
    (work / "stand-ins" / name).rename(work / name)
    answer = said(*words, **extra)
    (work / name).rename(work / "stand-ins" / name)
    return answer


if __name__ == "__main__":
    in_scratch(test, "the device holds")
