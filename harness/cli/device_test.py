"""The libraries that lie below PyTorch for each --device, and the refusals of a machine that does not suit. DRIVER_LIBRARY is a stand-in for the
driver's library; copies of the virtual platform's libraries stand in for NVIDIA's, and NVIDIA's own where ci/setup --cuda has brought them."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import BINARY, ROOT, drawn, without_mpirun

DRIVER = os.path.realpath(os.environ["DRIVER_LIBRARY"])
NVIDIA = Path(os.environ.get("TIDEMARK_DEPS", ROOT / ".deps"), "nvidia")
VIRTUAL = Path(BINARY).resolve().parent / "virtual"
NAMES = {p.name for p in VIRTUAL.glob("*.so.*") if not p.name.startswith("libtidemark")}
BOTH = NAMES | {"libnvidia-ml.so.1"}  # which comes with the driver
CUDA, NOTHING = ("run", "--device", "cuda"), {"TIDEMARK_CUDA_DRIVER": "/nosuch"}
RUN = ("run", "fsdp_prefetch/stash", "--size", "smoke", "--mode", "shapes", "--steps", "2", "--ranks", "2", "--races", "off", "--details", "none")


class Said:
    def __init__(self, *words: str, launcher: tuple[str, ...] = (), **extra: str):
        for name in ("out", "tidemark-out"):
            shutil.rmtree(name, ignore_errors=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEMARK_", "STAND_IN_", "CUDA_"))}
        begin = time.monotonic()
        run = subprocess.run([*launcher, BINARY, *words], env={**clean, "TIDEMARK_CUDA_DRIVER": DRIVER, **extra}, capture_output=True,
                             text=True, timeout=200, check=False)
        self.code, self.out, self.err, self.seconds = run.returncode, run.stdout, without_mpirun(run.stderr), time.monotonic() - begin

    def refuses(self, code: int, says: str, what: str) -> None:
        assert self.code == code, f"{what}: exit code {self.code}, not {code}: {self.err}"
        assert says in self.err and self.err.count("\n") == 1, f"{what}: not one line with '{says}': {self.err}"
        assert self.seconds < 60, f"{what}: took {self.seconds:.0f} s"


@pytest.fixture
def libraries(folder):
    """The settings for libraries that stand in for NVIDIA's."""
    stand_ins = folder / "stand-ins"
    stand_ins.mkdir()
    for library in VIRTUAL.glob("*.so*"):
        shutil.copy(library, stand_ins / library.name)
    for name in ("profiles", "nvml"):
        shutil.copytree(VIRTUAL / name, stand_ins / name)
    return {"TIDEMARK_CUDA_LIBRARIES": str(stand_ins), "TIDEMARK_CUDA_DRIVER": str(stand_ins / "libcuda.so.1")}


def makers(version):
    """The maker of each library that --version names."""
    return dict(re.findall(r"^(lib\S+) .*?(\w+)$", version.out, re.M))


def test_nothing_virtual_is_linked():
    needed = subprocess.run(["readelf", "-d", f"{BINARY}_scenarios"], capture_output=True, text=True, check=True).stdout
    assert "libcudart.so.13" in needed and "libtidemark_" not in needed, "on a GPU nothing of the virtual device may be loaded"


# night: runs of a scenario on four GPUs; attention_test of the operators holds their kernels by day
def test_attention():
    """Attention's kernels are the device's: their tiles in single precision, and flash attention."""
    attention = ("run", "tp_buffer_reuse", "--device", "virtual", *RUN[2:], "--schedule", "instant", "--gpu")
    for gpu in ("t4-16g", "a100-80g"):
        run = Said(*attention, gpu, *(word for value in ("hidden=288", "heads=4", "kv_heads=2") for word in ("--set", value)))
        assert run.code == 0, f"heads of 72 elements on {gpu}: {run.code} {run.out[-800:]} {run.err}"
    Said(*attention, "t4-16g", "--set", "precision=bf16").refuses(2, "flash attention needs compute capability 8.0, this GPU has 7.5", "bf16 on a T4")
    heads = [word for value in ("hidden=832", "heads=4", "kv_heads=4", "precision=bf16") for word in ("--set", value)]
    for gpu in ("l40s-48g", "rtx5090-32g"):
        Said(*attention, gpu, *heads).refuses(2, "flash attention has no backward for heads of 208 elements", f"heads of 208 elements on {gpu}")
    assert Said(*attention, "a100-80g", *heads).code == 0, "heads of 208 elements on an A100"


def test_refusals():
    """Refused before anything is loaded: the driver, then the libraries."""
    Said(*CUDA, **NOTHING).refuses(77, "no NVIDIA driver", "no driver")
    Said(*CUDA, STAND_IN_VERSION="12040").refuses(77, "serves CUDA 12.4 at most", "an old driver")
    Said(*CUDA, STAND_IN_GPUS="0").refuses(77, "finds no GPU", "no GPU")
    Said(*CUDA, STAND_IN_GPUS="0", CUDA_VISIBLE_DEVICES="").refuses(2, "CUDA_VISIBLE_DEVICES=", "a hidden GPU")
    Said(*CUDA, STAND_IN_ERROR="803").refuses(3, "restart", "a driver of two versions")
    Said(*CUDA, STAND_IN_ERROR="999").refuses(3, "cuInit: error 999", "a driver that does not start")
    Said(*CUDA, STAND_IN_ERROR="-1").refuses(3, "does not answer", "a driver that dies")
    Said(*CUDA, TIDEMARK_CUDA_LIBRARIES="/nosuch").refuses(77, "missing: libcublas.so.13", "no libraries")
    two = ("mpirun", "--oversubscribe", "-n", "2")
    Said(*CUDA, launcher=two, **NOTHING).refuses(77, "no NVIDIA driver", "under mpirun")


def test_auto():
    """auto then takes the virtual platform, and says why, once."""
    for extra, why in drawn(((NOTHING, "no NVIDIA driver"), ({"TIDEMARK_CUDA_LIBRARIES": "/nosuch"}, "ci/setup --cuda"), ({"STAND_IN_GPUS": "0"}, "finds no GPU")), 3):
        run = Said(*RUN, "--schedule", "instant", "--out", "out", **extra)
        notes = [line for line in run.err.splitlines() if "virtual device (" in line]
        assert run.code == 0 and len(notes) == 1 and why in notes[0], f"auto, {why}: {run.code} {run.err}"
    run = Said(*RUN, "--schedule", "instant", "--out", "out", "--device", "virtual", **NOTHING)
    assert run.code == 0 and "virtual platform" not in run.err, f"what was asked for is not commented on: {run.err}"
    Said("run", CUDA_VISIBLE_DEVICES="", **NOTHING).refuses(2, "not even a virtual one", "a hidden virtual GPU")
    assert Said("list", **NOTHING).err == "", "list needs no device"
    assert "note: virtual device (no NVIDIA driver found)\n" in Said("--version", **NOTHING).out, "--version says why it is the virtual platform"


def test_with_everything_there(libraries):
    """With everything there it starts again on the other libraries, in every rank, and on all of them."""
    version = Said("--version", **libraries)
    rows = makers(version)
    assert BOTH <= rows.keys() and all(rows[name] == "NVIDIA" for name in BOTH), f"on the other libraries: {version.out}{version.err}"
    assert "note" not in version.out + version.err, f"auto takes the GPU without a word: {version.out}{version.err}"
    run = Said("exec", "printenv", "LD_LIBRARY_PATH", TIDEMARK_DEVICE="cuda", **libraries)
    assert run.code == 0 and run.out.startswith(libraries["TIDEMARK_CUDA_LIBRARIES"]), f"exec gives them to another program: {run.code} {run.out}{run.err}"
    Said("exec", "printenv", TIDEMARK_DEVICE="cuda", **NOTHING).refuses(77, "no NVIDIA driver", "exec without a driver")
    Said("exec").refuses(2, "no program is given", "exec of nothing")
    Said("exec", "/nosuch", **NOTHING).refuses(2, "/nosuch cannot be started", "exec of what is not there")
    run = Said(*RUN, "--schedule", "instant", "--out", "out", "--device", "cuda", LD_LIBRARY_PATH="/nosuch", **libraries)
    assert run.code == 0, f"two ranks on them: {run.code} {run.err}"
    env = json.loads(Path("out/report.json").read_text())["run"]["env"]
    assert env.get("TIDEMARK_ON") == "cuda", f"the ranks run on them too: {env}"
    version = Said("--version", TIDEMARK_COLLECTIVES="staged", **libraries)
    rows = makers(version)
    assert {name: maker for name, maker in rows.items() if maker != "NVIDIA"} == {"libnccl.so.2": "staged"}, f"one NCCL of ours on them: {version.out}{version.err}"
    run = Said(*RUN, "--schedule", "instant", "--out", "out", "--device", "cuda", "--collectives", "staged", TIDEMARK_UNKNOWN="nan", **libraries)
    assert run.code == 0, f"two ranks on it: {run.code} {run.err}"
    env = json.loads(Path("out/report.json").read_text())["run"]["env"]
    assert env.get("TIDEMARK_ON") == "cuda+staged", f"two ranks on it: {env}"
    assert env.get("CUDA_DEVICE_MAX_CONNECTIONS") == "32", f"streams that wait must not hold up others: {env}"
    Said(*CUDA, LD_PRELOAD=str(VIRTUAL / "libcublas.so.13"), **libraries).refuses(2, "stand in the way", "LD_PRELOAD of the virtual ones")
    Path("stand-ins/libnccl.so.2").unlink()
    assert "missing: libnccl.so.2 (" in Said(*CUDA, **libraries).err, "one that is missing is named"


def test_nvml():
    """NCCL and PyTorch load NVML by name: on NVIDIA's driver they must not find the virtual one, though its folder may be searched."""
    loads = "import ctypes\ntry: ctypes.CDLL('libnvidia-ml.so.1')\nexcept OSError: pass\nprint(open('/proc/self/maps').read())"
    run = subprocess.run([sys.executable, "-c", loads], env={**os.environ, "LD_LIBRARY_PATH": str(VIRTUAL)}, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and str(VIRTUAL) not in run.stdout, f"the virtual NVML is found by name: {run.stdout[-2000:]}{run.stderr}"


def test_mixed(folder):
    """The virtual platform stays whole where others stand before it."""
    mixed = folder / "mixed"
    mixed.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):  # what a driver brings along
        shutil.copy(DRIVER, mixed / name)
    version = Said("--version", LD_LIBRARY_PATH=str(mixed), TIDEMARK_DEVICE="virtual")
    rows = makers(version)
    assert BOTH <= rows.keys() and set(rows.values()) == {"virtual"}, f"on the virtual platform: {version.out}{version.err}"
    assert re.search(r"^torch +\S", version.out, re.M), f"--version names torch: {version.out}"
    assert re.search(r"^libcudart\.so\.13 +13\.0 ", version.out, re.M), f"--version gives versions: {version.out}"
    assert "/" not in version.out, f"no path in --version: {version.out}"
    Said("run", "--device", "virtual", LD_PRELOAD=str(mixed / "libcuda.so.1")).refuses(2, "stand in its way", "LD_PRELOAD of another")


def test_nvidias():
    if not NVIDIA.is_dir():
        pytest.skip("ci/setup --cuda has not brought NVIDIA's libraries")
    real = Said(*CUDA, LD_DEBUG="libs")  # NVIDIA's own, which find the stand-in no driver
    assert real.code == 3 and "the CUDA runtime does not start on" in real.err, f"NVIDIA's libraries: {real.code} {real.err[-300:]}"
    loaded = dict((Path(path).name, path) for path in re.findall(r"calling init: (\S+)", real.err))
    assert all(str(NVIDIA) in os.path.realpath(loaded.get(name, "")) for name in NAMES - {"libcuda.so.1"}), f"all are NVIDIA's: {loaded}"
    assert loaded.get("libcuda.so.1") == DRIVER, f"the driver's is not the virtual one: {loaded}"
    Said(*CUDA).refuses(3, "the CUDA runtime does not start on", "NVIDIA's libraries on no driver")
