"""ci/gpu on a stand-in for tidemark: what it runs on which device, the table, exit codes, limits of time, and
what it says where something is lacking. Then a rehearsal of the real one, packed and unpacked elsewhere."""
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from stand_in import executable

CI = Path(__file__).resolve().parent
PINS = dict(re.findall(r"^([a-z-]+)==(\S+)", (CI / "wheels.txt").read_text(), re.M))
OWN_TORCH = PINS["torch"] + "+cu" + "".join(PINS["nvidia-cuda-runtime"].split(".")[:2])
STAND_IN = """#!/usr/bin/env bash
echo "${TIDEMARK_DEVICE:-}${TIDEMARK_PLATFORM:-}| $*" >>"$CALLS"
[ "$1" != gpu ] || shift
case $1 in
--version) if [ "${TIDEMARK_DEVICE:-}" = cuda ] && [ -n "${NO_GPU:-}" ]; then echo "error: --device cuda: no NVIDIA driver answers"; exit 77; fi
           [ -z "${BROKEN:-}" ] || { echo "tidemark: error while loading shared libraries: libx.so"; exit 127; }
           echo "platform cuda: a GPU" ;;
run) out=${@: -1}; mkdir -p "$out"; echo "3 passed, 0 failed, 0 skipped"
     case $out in */gpu-r*) sleep "${SLEEP:-0}"; exit "${GPU_CODE:-0}" ;; */virtual-r*) exit "${VIRTUAL_CODE:-0}" ;;
     */timings) printf '# run\\n## case\\ntext\\n\\n| variant | median |\\n|---|---:|\\n| a\\\\_b | 3 us |\\n\\n| other | table |\\n' >"$out/summary.md" ;; esac ;;
recording) ;;
compare) echo "no difference"; exit "${COMPARE_CODE:-0}" ;;
exec) exit "${TEST_CODE:-0}" ;;
esac
"""


class Gpu:
    """A folder as a checkout, or as what was unpacked, and what ci/gpu says in it."""

    def __init__(self, root: Path):
        self.root, self.out = root, root / "out"

    def __call__(self, *words: str, **extra: str):
        shutil.rmtree(self.out, ignore_errors=True)
        calls = self.root / "calls"
        calls.write_text("")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
        begin = time.monotonic()
        run = subprocess.run([self.root / "ci" / "gpu", *words], cwd=self.root, capture_output=True, text=True, timeout=280, check=False,
                             env={**clean, "CALLS": str(calls), "TIDEMARK_BUILT": "1", **extra})
        self.seconds = time.monotonic() - begin
        return run.returncode, run.stdout, run.stderr, calls.read_text().splitlines()


@pytest.fixture
def gpu(tmp_path):
    work = tmp_path
    torch = work / "torch"
    (work / "ci").mkdir()
    for name in ("gpu", "environment.sh", "wheels.txt"):
        shutil.copy(CI / name, work / "ci" / name)
    binary = work / "build" / "dev" / "tidemark"
    binary.parent.mkdir(parents=True)
    executable(binary, STAND_IN)
    torch.mkdir()
    (torch / "version.py").write_text(f"__version__ = '{OWN_TORCH}'\n")
    return Gpu(work)


@pytest.fixture
def here(gpu):
    return {"TIDEMARK_TORCH": str(gpu.root / "torch"), "TIDEMARK_GPU_RANKS": "2"}


def test_on_a_stand_in(gpu, here):
    code, out, err, calls = gpu("--out", "out", "fsdp*", **here)
    runs = [call for call in calls if call.split("| ")[1].startswith("run")]
    assert code == 0 and "exit code 0" in out.splitlines()[-1], f"a good run: {code} {out} {err}"
    devices = [re.search(r"--device (\w+)", call).group(1) for call in runs]
    assert devices == ["virtual", "cuda", "cuda", "virtual", "cuda"], f"virtual, then the GPU, its times, then both at the seeds' sizes: {runs}"
    assert all("run fsdp* " in call and "--ranks 2 " in call for call in runs[:3]), f"the patterns, on that many ranks: {runs}"
    assert "--schedule device --repetitions 5" in runs[2], f"times in the device's own time: {runs}"
    assert all("run fsdp* " in call and "--ranks 8 --as-rank 7 " in call for call in runs[3:]), f"the patterns, the last of eight ranks: {runs}"
    for what in ("r2", "seed"):
        assert f"| compare --events {gpu.out}/virtual-{what} {gpu.out}/gpu-{what}" in calls, f"the two are compared event by event: {calls}"
        assert f"| gpu recording {gpu.out}/gpu-{what} --out {gpu.out}/measured-{what}.json" in calls, f"a recording is kept: {calls}"
    assert sum(call.startswith("cuda| exec") for call in calls) >= 4, f"conformance runs on the GPU's libraries: {calls}"
    assert (gpu.out / "table.txt").read_text() == out and "platform" not in out and "cuda: a GPU" in out, f"the table is kept, and names the GPU: {out}"
    assert "\ncase\n  variant   median\n  a_b   3 us\nmachine" in out, f"what the steps take stands in the table: {out}"
    assert "REHEARSAL" not in out and len(out.splitlines()) < 27, f"a short table: {out}"
    _, out, _, calls = gpu("--out", "out", **{**here, "TIDEMARK_GPU_RANKS": "3 1"})
    worlds = [re.search(r"--ranks (\d+)", call).group(1) for call in calls if "| run" in call]
    assert worlds == ["3", "3", "1", "1", "3", "8", "8"], f"one world after the other, the first is timed: {worlds}"
    assert sum(" --numbers --device" in call for call in calls) == 4, f"numbers are written: {calls}"
    for n in (1, 3):
        assert any(call.endswith(f"compare --numbers {gpu.out}/virtual-r{n} {gpu.out}/gpu-r{n}") for call in calls), f"and compared with each other: {calls}"
        assert re.search(rf"^numbers-r{n} .* 0 ", out, re.M), f"a row of their own: {out}"

    for extra, expected, says in (({"GPU_CODE": "1"}, 1, "gpu-r2"), ({"COMPARE_CODE": "1"}, 1, "virtual-against-gpu-r2"), ({"TEST_CODE": "139"}, 3, "ended with 139"),
                                  ({"VIRTUAL_CODE": "3", "COMPARE_CODE": "1"}, 3, "virtual-r2"), ({"GPU_CODE": "2"}, 2, "gpu-r2")):
        code, out, _, calls = gpu("--out", "out", **here, **extra)
        assert code == expected and says in out, f"{extra}: exit code {code}, not {expected}: {out}"
        assert "| gpu recording" in calls[-1], f"{extra}: the parts after it ran: {calls[-1]}"
    code, out, _, calls = gpu("--out", "out", TIDEMARK_GPU_SECONDS="3", SLEEP="60", **here)
    assert code == 3 and "out of time after" in out and gpu.seconds < 20, f"out of time: {code} in {gpu.seconds:.0f} s: {out}"
    assert "timings" in out and (gpu.out / "virtual-r2").is_dir(), f"what was there before stays: {out}"

    code, out, err, calls = gpu("--out", "out", "--rehearse", NO_GPU="1", **here)
    assert code == 0 and out.startswith("REHEARSAL"), f"a rehearsal needs no GPU and says what it is: {code} {out} {err}"
    assert not any("--device cuda" in call for call in calls) and any(call.startswith("cuda| run") for call in calls), f"and asks for none: {calls}"


def test_needs(gpu, here):
    assert gpu("--needs", **here)[:2] == (0, "nothing is lacking\n"), "a machine that has everything"
    for extra, says in (({"NO_GPU": "1"}, "lacks: no NVIDIA driver answers\n"), ({"BROKEN": "1"}, "libx.so"), ({"TIDEMARK_TORCH": "/nosuch"}, "/nosuch is another"),
                        ({"PATH": "/nosuch:/usr/bin:/bin", "TIDEMARK_TORCH": str(gpu.root)}, f"lacks: torch {OWN_TORCH}: {gpu.root} is another")):
        code, out, _, _ = gpu("--needs", **{**here, **extra})
        assert code == 1 and says in out and all(line.startswith("lacks: ") for line in out.splitlines()), f"--needs, {extra}: {code} {out}"
    code, _, err, _ = gpu(NO_GPU="1", **here)
    assert code == 77 and "no NVIDIA driver" in err and err.count("\n") == 1, f"without a GPU: {code} {err}"
    (gpu.root / "full").mkdir()
    (gpu.root / "full" / "x").write_text("x")
    for words, extra, says in ((["--out", "full"], {}, "has something in it"), (["--out", "/proc/x"], {}, "cannot be made"), (["--nosuch"], {}, "there are --out"),
                               ([], {"TIDEMARK_GPU_SECONDS": "many"}, "not a number of seconds"), ([], {"TIDEMARK_GPU_RANKS": "1 0"}, "not a number of ranks"),
                               (["--pack", "/nosuch/x"], {}, "no such folder")):
        code, _, err, _ = gpu(*words, **{**here, **extra})
        assert code == 2 and says in err and "\nerror" not in err, f"{words} {extra}: {code} {err}"


def test_packed(tmp_path):
    """The real one: packed, and rehearsed where nothing of the build's folders is named, as small as can be."""
    work, binary = tmp_path, Path(os.environ["TIDEMARK_BIN"]).resolve()
    cache = (binary.parent / "CMakeCache.txt").read_text()
    if re.search("^CMAKE_CXX_FLAGS:.*fsanitize", cache, re.M):
        pytest.skip("a build with a sanitizer is not packed")
    pack = work / "pack.tar.gz"
    env = {**os.environ, "TIDEMARK_BUILT": "1", "TIDEMARK_PRESET": binary.parent.name}
    made = subprocess.run([CI / "gpu", "--pack", pack], env=env, capture_output=True, text=True, timeout=200, check=False)
    assert made.returncode == 0 and re.search(r"pack.tar.gz, \d+ MiB", made.stderr), f"--pack: {made.returncode} {made.stderr}"
    assert pack.exists() and pack.stat().st_size < 64 << 20, "it may travel"
    root = work / "unpacked"
    root.mkdir()
    subprocess.run(["tar", "-xf", pack, "-C", root], check=True)
    tidemark = root / "build" / binary.parent.name / "tidemark"
    assert "runpath" not in subprocess.run(["readelf", "-d", tidemark], capture_output=True, text=True, check=True).stdout.lower(), \
        "it looks in no folder of the build machine"
    deps = re.search(r"^TIDEMARK_DEPS:\w+=(.*)$", cache, re.M).group(1)
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(work), "TIDEMARK_PRESET": binary.parent.name,
            "TIDEMARK_TORCH": f"{deps}/torch", "TIDEMARK_COLLECTIVES": "staged", "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(work / "loader")}
    run = subprocess.run([root / "ci" / "gpu", "--rehearse", "--out", root / "out", "fsdp_prefetch/stash"], env=bare, cwd=root, capture_output=True, text=True,
                         timeout=250, check=False)
    assert run.returncode == 0 and re.search(r"\ngpu-r2 +\d+ s  0 ", run.stdout), f"unpacked, rehearsed: {run.returncode} {run.stdout} {run.stderr}"
    assert re.search(r"^numbers-r2 .* 0 +\d+ variants with the same bits, 0 within the model, 0 different", run.stdout, re.M), f"the same numbers: {run.stdout}"
    taken = {path for log in work.glob("loader*") for path in re.findall(r"calling init: (\S+)", log.read_text(errors="replace"))}
    assert not any("libmpi" in path for path in taken), "it needs no MPI"
    for name in ("libzmq.so", "libcudart.so", "libtidemark_operators.so"):
        places = {str(Path(path).parent) for path in taken if name in path}
        assert bool(places) and all(place.startswith(str(root)) for place in places), f"{name} is the carried one: {places}"
    assert str(root / "build" / binary.parent.name / "staged" / "libnccl.so.2") in taken, f"the staged NCCL is carried: {sorted(p for p in taken if 'nccl' in p)}"
    again = subprocess.run([root / "ci" / "gpu", "--pack"], env=bare, cwd=root, capture_output=True, text=True, timeout=100, check=False)
    assert again.returncode == 2 and "pack where it was built" in again.stderr, f"what is carried is not packed again: {again.stderr}"
