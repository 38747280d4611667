"""`tidemark exec` with small programs of the torch that can be imported from SITE."""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testing.said import FOLDER, HERE, MIB, SITE, TIDEMARK, Said, free_port, python

TRAINING = (str(HERE / "wheel.py"), "training")


def check_training(result):
    """Each of two ranks has the losses and parameters of the CPU, to the bit."""
    result.ends(0, "rank 0", "rank 1 cuda:1")
    result.check(re.fullmatch(r"(begin data_parallel\n|check data_parallel passed \d+ \d+\n){4}", result.out) and result.out.count("passed") == 2, "both ranks pass")


def test_alone():
    (FOLDER / "sitecustomize.py").write_text("print('the own one', flush=True)\n")
    out = FOLDER / "report.json"
    result = python("a = torch.empty(5 << 20, dtype=torch.uint8, device='cuda')\nb = torch.empty(2 << 20, dtype=torch.uint8, device='cuda')\n"
                  "del a\ntorch.cuda.reset_peak_memory_stats()\nraise SystemExit(7)", "--out", out, "--max-peak", "20MiB",
                  path=f"{FOLDER}:{SITE}").ends(7, "7.00")
    result.check("FAIL" not in result.err and "--max-peak: 20 MiB are reserved at most, of 20 MiB\n" in result.err and result.out == "the own one\n",
               "--max-peak that holds, the user's own sitecustomize")
    trial, = json.loads(out.read_text())["trials"]
    result.check([(one["name"], one["status"], one["measured"]) for one in trial["verdicts"]] == [("memory/reserved/limit", "pass", 20 * MIB)], "a verdict of its own")
    program = trial["program"]
    figures = program["ranks"][0]["devices"][0]
    result.check(figures["allocated"] == figures["requested"] == 7 * MIB and program["exit_code"] == 7 and trial["mode"] == "known",
               "5 + 2 MiB, whatever was reset")
    python("from torch.backends import cudnn\na, b, c = torch._C._cudnn.getCompileVersion()\nassert cudnn.version() == 10000 * a + 100 * b + c\n"
           "assert cudnn.is_acceptable(torch.ones(1, device='cuda'))").ends(0)
    python("torch.empty(7 << 20, dtype=torch.uint8, device='cuda')", "--max-peak", 20 * MIB - 1024).ends(
        5, "FAIL --max-peak: process", "reserves 20 MiB, 1 KiB more than 20.0 MiB")
    Said("--max-peak", "7MiB", "--", "true").ends(5, "FAIL unknown: no process has recorded CUDA memory")
    (FOLDER / "bin").mkdir()
    (FOLDER / "bin" / "true").symlink_to("/bin/true")
    result = Said("--", FOLDER / "bin" / "true").ends(0)
    result.check(os.listdir(FOLDER / "bin") == ["true"], "nothing is written beside the program")


# holds: harness/exec/README.md, Exit code
def test_verdicts():
    # Free segments of 20 and 2 MiB, and 22 MiB wanted of 40: the allocator frees them and tries again.
    python("a = torch.empty(20 << 20, dtype=torch.uint8, device='cuda')\ndel a\nb = torch.empty(22 << 20, dtype=torch.uint8, device='cuda')",
           "--capacity", "40MiB", "--no-retries").ends(5, "FAIL --no-retries: the allocator of process", "tried again 1 time")
    race = ("x = torch.ones(1 << 20, device='cuda')\nother = torch.cuda.Stream()\n{wait}\nwith torch.cuda.stream(other):\n y = x + 1\n")
    python(race.format(wait=""), "--races", "on", "--no-races").ends(5, "FAIL --no-races: process", "has 1 race")
    python(race.format(wait="other.wait_stream(torch.cuda.current_stream())"), "--races", "on", "--no-races").ends(0)
    result = python("x = torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\nimport os, time\ntime.sleep(1.5)\nos.kill(os.getpid(), 9)")
    result.ends(137, "was ended by signal 9", "3.00", "ended early with 3 MiB allocated")


# night: programs that become others; exec_verdicts holds the limits by day
def test_unmeasured():
    """No verdict passes by the peaks of other processes, or by those of what a process has become."""
    large = "import torch, os; x = torch.empty(1 << 30, dtype=torch.uint8, device='cuda')"
    wish, too_much = ("--max-peak", "100MiB"), "reserves 1 GiB, 924 MiB more than 100 MiB"
    python(f"import sys\n{large}\nos.execv(sys.executable, [sys.executable, '-c', 'import torch; y = torch.ones(1, device=0)'])", *wish).ends(5, too_much)
    beside = "import subprocess, sys\ny = torch.ones(1, device='cuda')\nsubprocess.run([sys.executable, %s, '''%s\n%s'''])"
    python("import os\ny = torch.ones(1 << 20, device='cuda')\ntry: os.execv('/no-such-program', ['x'])\nexcept OSError: z = torch.ones(1 << 21, device='cuda')\n"
           "import time\ntime.sleep(1.5)\nos.kill(os.getpid(), 9)", *wish).ends(137, " 12.00 ", "ended early")
    report, killed = FOLDER / "unmeasured", "FAIL unknown: process"
    result = python(beside % ("'-c'", large, "os.kill(os.getpid(), 9)"), *wish, "--report", report)
    result.ends(5, killed, "was killed with 1 GiB allocated: its peaks are those until then", "FAIL --max-peak", too_much)
    result.check("ended early with 1 GiB allocated: its peaks are those until then" in (report / "report.html").read_text(), "the page says it")
    foreign = "import ctypes; ctypes.CDLL('libcudart.so.13').cudaMalloc(ctypes.byref(ctypes.c_void_p()), 1 << 20)"
    python(beside % ("'-c'", foreign, ""), *wish).ends(5, killed, "no peaks were recorded for it")


# night: three more Pythons that start in ways of their own
def test_isolated():
    """Pythons that do not read PYTHONPATH, or have another one: their peaks and stacks are recorded."""
    large = f"import sys; sys.path.append({SITE!r}); import torch; x = torch.empty(1 << 30, dtype=torch.uint8, device='cuda')"
    for words in ["-I"], ["-E"], ["-S"], ["-Bs", "-IS"], ["-X", "utf8", "-E"]:
        report = FOLDER / "isolated" / "".join(words)
        result = Said("--report", report, "--", sys.executable, *words, "-c", large).ends(0, " 1024.0 ", "1024.0 in 1 block, <module> <string>:1")
    python(f"import subprocess, sys, os\nos.environ['PYTHONPATH'] = '/'\nsubprocess.run([sys.executable, '-c', {large!r}], check=True)").ends(0, " 1024.0 ")
    result.check("1,073,741,824" in (report / "report.html").read_text(), "the page says it")


def test_ranks():
    check_training(Said("--ranks", 2, "--", sys.executable, *TRAINING))
    result = python("import os, time\nif os.environ['RANK'] == '1': raise SystemExit(5)\ntime.sleep(120)", "--ranks", 3)
    result.ends(5, "rank 1 ended with exit code 5: tidemark ends the other ranks")
    result.check(result.seconds < 60, "the others are not waited for")


# holds: README.md, Your script
def test_torchrun():
    check_training(Said("--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port", free_port(), *TRAINING))


# night: one more way to start two ranks; exec_fork and exec_torchrun have two by day
def test_spawn():
    check_training(Said("--devices", 2, "--", sys.executable, *TRAINING, "spawn", free_port()))


def test_fork():
    check_training(Said("--devices", 2, "--", sys.executable, *TRAINING, "fork", free_port()))


# holds: harness/exec/README.md, One rank of many
def test_absent():
    shard, reports = [sys.executable, HERE / "shard.py"], {}
    for name, flags in {"present": ["--ranks", 2], "absent": ["--as-rank", "0,1", "--of", 2]}.items():
        Said(*flags, "--out", FOLDER / name, "--", *shard).ends(0)
        reports[name] = [[{**one, "device": 0} for one in rank["devices"]] for rank in json.loads((FOLDER / name).read_text())["trials"][0]["program"]["ranks"]]
    if len(reports["present"]) != 2 or reports["present"] != reports["absent"]:
        pytest.fail(f"the peaks of ranks without partners are those of ranks with them: {reports}")
    # 2 of 1,024 rows of 4 layers, with two moments of Adam each; cuBLAS's workspace on Hopper, of the forward's and of the backward's
    # thread; the byte of the last barrier, in a block of 512
    rest = 4 * 3 * 2 * 1024 * 4 + 2 * (32 << 20) + 512
    result = Said("--as-rank", "0,511", "--of", 512, "--", *shard).ends(0, "rank 0 ", "rank 511 ")
    result.check(result.out == f"rest {rest}\n" * 2, f"{rest} bytes at rest")


# night: repeats exec_absent with stages that start one after the other
def test_pipeline():
    """Stages learn their shapes from the stages before them, also where their ranks run one after the other."""
    stages, ranks, peaks_by_name = HERE / "stages.py", 3, {}
    for name, flags in {"present": ["--ranks", ranks], "absent": ["--as-rank", "2,1,0", "--of", ranks]}.items():
        # The device's clock of a rank without partners does not wait for theirs: lagging does not ask it.
        result, _, peaks_by_name[name] = peaks(name, "--schedule", "lagging", *flags, stages)
        result.check(sorted(result.out.splitlines()) == ["widths 128 1024", "widths 256 2048", "widths 64 512"], "each stage is as wide as its place")
    if len(set(map(tuple, peaks_by_name["present"]))) != ranks or peaks_by_name["present"] != peaks_by_name["absent"]:
        pytest.fail(f"the peaks of ranks without partners are those of ranks with them, each its own: {peaks_by_name}")
    Said("--as-rank", 1, "--of", 4, "--", sys.executable, stages).ends(1, "rank 1 wants an object of rank 0, which is absent under --as-rank",
                                                                       "Name the ranks that it needs as well (--as-rank 0,1)")
    Said("--as-rank", "0,1", "--of", 2, "--", sys.executable, stages, "leave").ends(1, "an object of rank 0, which has ended without sending it")
    # Two ranks wait for the third; on one core, one of them goes on at a time.
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    python(f"""import os, time, torch.distributed as dist
dist.init_process_group('nccl')
if dist.get_rank() == 2:
    dist.send_object_list([0], dst=0)
    dist.send_object_list([1], dst=1)
else:
    dist.recv_object_list([None], src=2)
    os.mkdir('{FOLDER}/works')
    time.sleep(1)
    os.rmdir('{FOLDER}/works')""", "--as-rank", "0,1,2", "--of", 3).ends(0)
    os.sched_setaffinity(0, cores)
    result = python("import torch.distributed as dist\ndist.init_process_group('nccl')\ndist.recv_object_list([None], src=1 - dist.get_rank())",
                  "--as-rank", "0,1", "--of", 2, "--timeout", 3).ends(1, "do ranks wait for each other?")
    result.check(result.seconds < 60, "no hang")


def peaks(name, *words):
    out = FOLDER / name
    result = Said(*words[:-1], "--out", out, "--", sys.executable, words[-1]).ends(0)
    report = json.loads(out.read_text())
    return result, report, [[device[key] for key in ("allocated", "active", "reserved")] for rank in report["trials"][0]["program"]["ranks"] for device in rank["devices"]]


# night: three programs in six runs of mode math and known; exec_values_read and exec_kinds_compiled_code hold the rules of known by day
def test_known():
    """The peaks of mode known are those of math, whatever it computes of a program: all of it, or next to nothing."""
    scaler, shard = HERE / "scaler.py", HERE / "shard.py"
    programs = {"one": (("1MiB", "4KiB"), (scaler,)), "ranks": (("1MiB",), ("--ranks", 2, scaler)), "fsdp": (("1MiB",), ("--ranks", 2, shard))}
    for name, (limits, words) in programs.items():
        _, _, math = peaks(name + "math", "--mode", "math", *words)
        for limit in limits:
            result, report, known = peaks(f"{name}known{limit}", "--known-limit", limit, *words)
            result.check(math == known, f"the peaks of math, {math}, and not {known}")
            if words[-1] is scaler:
                ranks = result.out.count("scale ")
                result.check(ranks > 0 and result.out.count("scale 65536.0 steps {3.0} states 6\n") == ranks, "no overflow, three steps")
                events = [event for rank in report["trials"][0]["program"]["ranks"] for event in rank["events"]]
                checks = [e for e in events if e["answer"] == "no overflow"]
                result.check(checks and all(e["line"].startswith(str(scaler) + ":") for e in checks), "where the overflow was asked for")
                result.ends(0, "values that were not known", "scaler.py:22  aten::_amp_foreach_non_finite_check_and_unscale_  no overflow, ")


# night: six programs of one rank of eight; exec_absent holds such ranks by day
def test_asks_absent():
    begin = "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\n"
    python(begin + "dist.recv_object_list([None], src=6)", "--as-rank", 1, "--of", 8).ends(
        1, "rank 1 wants an object of rank 6, which is absent under --as-rank")
    # The virtual GPU has not come to these collectives when PyTorch's watchdog looks; the time-outs are for partners, which are not there.
    python("import datetime, time\n" + begin.replace("'nccl'", "'nccl', timeout=datetime.timedelta(milliseconds=300)") +
           "a = torch.empty(1 << 15, 1 << 15, device='cuda')\nshort = datetime.timedelta(milliseconds=300)\n"
           "def reduce_late(group):\n  dist.all_reduce(a @ a, group=group)\n  time.sleep(1.5)\n"
           "reduce_late(None)\nreduce_late(dist.new_group([0, 1], timeout=short))\n"
           "dist.distributed_c10d._set_pg_timeout(short)\nreduce_late(None)", "--as-rank", 1, "--of", 8).ends(0)
    # The functions that stand for PyTorch's have its parameters.
    python(begin + """out, all_of = [None], [None] * 8
dist.all_gather_object(object_list=all_of, obj=3, group=None)
dist.gather_object(obj=3, object_gather_list=all_of, dst=1, group=None)
dist.broadcast_object_list(object_list=[3], src=1, group=None, device=None)
dist.scatter_object_list(scatter_object_output_list=out, scatter_object_input_list=list(range(8)), src=1, group=None)
assert out == [1] and all_of == [3] * 8
dist.scatter_object_list(scatter_object_output_list=out, scatter_object_input_list=None, src=0)
""", "--as-rank", 1, "--of", 8).ends(1, "rank 1 wants an object of rank 0, which is absent under --as-rank")
    # What is answered without partners, or faster, is what PyTorch says.
    python(begin + """from itertools import product
from torch.distributed import _mesh_layout as mesh
for sizes, strides in ((4, 3), ((2, 3), (1, 2)), (((2, 3), 4), ((24, 8), 1)), ((3, 1, 2), (0, 5, 7))):
    layout, flat = mesh._MeshLayout(sizes, strides), mesh.flatten
    assert layout.all_ranks_from_zero() == [sum(c * s for c, s in zip(place, flat(strides))) for place in product(*map(range, flat(sizes)))]
assert 'tidemark' in mesh._MeshLayout.all_ranks_from_zero.__code__.co_filename
assert dist.new_group([2, 3]) is dist.GroupMember.NON_GROUP_MEMBER and dist.new_group([0, 1]).size() == 2
""", "--as-rank", 1, "--of", 8).ends(0)
    python(begin + "dist.new_group([2, 8])", "--as-rank", 1, "--of", 8).ends(1, "The new group's rank should be within")
    # A program that leaves its process group alive ends with its own exit code.
    python(begin + "dist.all_reduce(torch.ones(1024, device='cuda'))\nraise SystemExit(7)", "--as-rank", 1, "--of", 8).ends(7)


def test_checkpoint():
    """Each rank saves and loads its own rows of a sharded tensor, and what all ranks have alike."""
    folder = FOLDER / "parts"
    program = f"""import torch, torch.distributed as dist, torch.distributed.checkpoint as checkpoint
from torch.distributed.tensor import Shard, distribute_tensor
dist.init_process_group('nccl')
mesh = dist.init_device_mesh('cuda', (4,))
rows = distribute_tensor(torch.arange(32., device='cuda').view(8, 4), mesh, [Shard(0)], src_data_rank=None)
state = dict(rows=rows, alike=torch.full((3,), 5., device='cuda'), step=7)
before = rows.to_local().clone()
checkpoint.save(state, checkpoint_id='{folder}')
"""
    result = python(program + """state['step'] = 0
rows.to_local().zero_()
state['alike'].zero_()
checkpoint.load(state, checkpoint_id='%s')
print('loaded', rows.to_local().equal(before), state['alike'].tolist(), state['step'])
""" % folder, "--as-rank", 0, "--of", 4).ends(0)
    result.check(result.out == "loaded True [5.0, 5.0, 5.0] 7\n", "what was saved")
    python(program, "--as-rank", "1,3", "--of", 4).ends(0)
    files = sorted(file.name for file in folder.iterdir())
    result.check(files == [".metadata", "__0_0.distcp", "__1_0.distcp", "__3_0.distcp"], f"a file of each rank: {files}")
    python("""import torch, torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
dist.init_process_group('nccl')
optimizer = ZeroRedundancyOptimizer(torch.nn.Linear(4, 4).cuda().parameters(), torch.optim.AdamW)
optimizer.consolidate_state_dict(0)""", "--as-rank", 0, "--of", 4).ends(1, "rank 0 wants an object of rank 1, which is absent under --as-rank")


def test_signals():
    program = "import torch, os, subprocess, time\nprint('up', flush=True)\nsubprocess.Popen(['sleep', '100'], start_new_session=True)\ntime.sleep(100)"
    running = subprocess.Popen([TIDEMARK, "exec", "--", sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": SITE})
    assert running.stdout.readline() == "up\n"
    time.sleep(0.5)
    running.send_signal(signal.SIGTERM)
    _, error = running.communicate(timeout=30)
    assert running.returncode == 128 + signal.SIGTERM, (running.returncode, error)
    assert "the program left 1 process running: killed" in error, error


def fake_torch(name, version, cuda):
    folder = FOLDER / name / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
    return folder.parent


def other_torch(name, version):
    """The torch of SITE under another version: its libraries are prepared as those of any other wheel."""
    real, folder = Path(SITE, "torch").resolve(), FOLDER / name / "torch"
    folder.mkdir(parents=True)
    for entry in real.iterdir():
        (folder / entry.name).symlink_to(entry)
    (folder / "version.py").unlink()
    (folder / "version.py").write_text((real / "version.py").read_text() + f"\n__version__ = {version!r}\n")
    return f"{folder.parent}:{SITE}"


# night: compiles the platform for another wheel, which takes a minute; exec_unprepared has the rest by day
def test_wheel():
    """Another wheel's libraries are prepared once, by one of two commands at the same time, and give the CPU's numbers."""
    path, cache = other_torch("wheel", "2.11.9+cu130"), FOLDER / "cache"
    both = [subprocess.Popen([TIDEMARK, "exec", "--", sys.executable, "-c", "import torch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env={**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)}) for _ in range(2)]
    outputs = [one.communicate(timeout=600) for one in both]
    prepared = [err for _, err in outputs if "preparing the virtual libraries for torch 2.11.9+cu130" in err]
    assert [one.returncode for one in both] == [0, 0], outputs
    assert len(prepared) == 1 and re.search(r"once, in some 25 CPU seconds \.\.\. (\d+ % )+\d+ s\n", prepared[0]), outputs
    check_training(Said("--ranks", 2, "--", sys.executable, *TRAINING, path=path, XDG_CACHE_HOME=str(cache)))
    places = [place.name for place in (cache / "tidemark").iterdir() if place.is_dir()]
    assert len(places) == 1 and places[0].startswith("torch-2.11.9+cu130-"), places


# holds: harness/exec/README.md, PyTorch wheels
def test_unprepared():
    path = other_torch("bare", "2.11.8+cu130")
    program = ["--", sys.executable, "-c", "import torch"]
    file = FOLDER / "file"
    file.write_text("")
    Said(*program, path=path, XDG_CACHE_HOME=str(file)).refuses("2.11.8+cu130", "the cache folder", "Not a directory", "set XDG_CACHE_HOME")
    Said(*program, path=path, XDG_CACHE_HOME=str(FOLDER), CXX="/no/compiler").refuses("there is no C++ compiler", "install g++")
    result = Said(*program, path=path, XDG_CACHE_HOME=str(FOLDER), CXX="false").ends(2, "cannot be compiled by", "once, in some 25 CPU seconds ... failed\n")
    result.check(result.err.count("\n") == 2, "one line after that")
    result.check(not [place for place in (FOLDER / "tidemark").iterdir() if place.is_dir()], "nothing is left of it")
    twelve = other_torch("twelve", "2.11.7+cu128")
    with (FOLDER / "twelve" / "torch" / "version.py").open("a") as version:
        version.write("cuda = '12.99'\n")
    Said(*program, path=twelve, XDG_CACHE_HOME=str(FOLDER), CUDA_HOME="/nowhere").refuses("need the headers of CUDA 12.99",
                                                                                           "install nvidia-cuda-runtime-cu12==12.99.*")


def test_refused():
    Said().refuses("no program is given")
    Said("--").refuses("no program is given")
    Said("--rank", 2, "--", "true").refuses("--rank")
    Said("--", "/nosuch/program").refuses("/nosuch/program cannot be started")
    Said("--", "no-such-program").refuses("no-such-program cannot be started")
    script = FOLDER / "a.py"
    script.write_text("import torch\n")
    Said("--", script).refuses(f"{script} cannot be started: it is not an executable file: write python3 {script}")
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    other = "one program cannot have both"
    for name, version, cuda, text, below in [
            ("cpu", "2.11.0+cpu", None, "a wheel without CUDA", "a wheel without CUDA"),
            ("major", "2.11.0+cu118", "11.8", "CUDA 11.8, which tidemark does not support", "CUDA 11.8, which tidemark does not support"),
            ("old", "2.3.1+cu121", "12.1", "supports none before 2.4", "supports none before 2.4"),
            ("other", "2.99.1+cu130", "13.0", "has no libtorch_cuda.so", other)]:
        place = fake_torch(name, version, cuda)
        for program in ([sys.executable, "-c", "0"], [script]):
            Said("--", *program, path=str(place)).refuses(version, text, "install torch")
        result = Said("--", "sh", "-c", f"PYTHONPATH={place}:$PYTHONPATH exec {sys.executable} -c 'import torch'").ends(2)
        result.check("error: exec: " in result.err and below in result.err, "the same in a process of the program")
    bare = subprocess.run([sys.executable, "-c", "import torch"], env={"PYTHONPATH": ""}, capture_output=True, check=False).returncode != 0
    if bare:
        Said("--", sys.executable, "-c", "0", path="").refuses(f"has no torch: PYTHONPATH={SITE} lends it the torch 2.", "or install torch 2.", "python3 -m pip install torch==2.",
                                                                "which needs no preparation; it may be 2.4 to 2.")
    Said("--", "true", TMPDIR="/nowhere").refuses("TMPDIR is not a folder: /nowhere")
    Said("--gpu", "no-such-gpu", "--", "true").refuses("no-such-gpu")
    Said("--schedule", "never", "--", "true").refuses("--schedule")
    Said("--capacity", "much", "--", "true").refuses("--capacity much")
    Said("--max-peak", "0", "--", "true").refuses("--max-peak 0")
    Said("--no-races", "--", "true").refuses("--races on")
    Said("--out", script, "--", "true").refuses("exists already")
    Said("--out", FOLDER / "none" / "x.json", "--", "true").refuses("cannot be written")
    Said("--as-rank", 8, "--of", 8, "--", "true").refuses("ranks are 0 to 7")
    Said("--as-rank", 0, "--", "true").refuses("--as-rank R needs --of W")
    Said("--as-rank", "1,1", "--of", 8, "--", "true").refuses("twice")
    Said("--as-rank", 0, "--of", 8, "--ranks", 2, "--", "true").refuses("one of the two")
    for sizes in ("half", "101%", "50%,50%"):
        Said("--sizes", sizes, "--", "true").refuses(f"--sizes {sizes}")
    Said("--known-limit", "some", "--", "true").refuses("--known-limit some")
    Said("--known-limit", "4095B", "--", "true").refuses("--known-limit 4095B is too small: give at least 4KiB")
    Said("--mode", "math", "--sizes", "50%", "--", "true").refuses("need --mode known")
    Said("--as-rank", 0, "--of", 8, "--mode", "math", "--", "true").refuses("--mode math needs all ranks")
    Said("--", TIDEMARK, "exec", "--", "true").ends(2, "itself started by tidemark exec")
    Said("--", "false").ends(1, "no process of the program has recorded CUDA memory")
    Said("--", "sh", "-c", "test \"$1\" = --ranks", "sh", "--ranks").ends(0)
