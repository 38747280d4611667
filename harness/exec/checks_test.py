"""The answer of `tidemark exec`, and the checks that it is asked for: out of memory, fits, grows; exit codes, and the same in every file that it writes."""
import json
import random
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

from testing.said import FOLDER, HERE, MIB, TIDEMARK, Said, drawn, python, seed

PROFILES = Path(TIDEMARK).parent / "virtual" / "profiles"
# A step has 4 MiB of parameters, gradients and momentum each, and activations of 4 MiB a row of the argument.
TRAIN = """
import sys
model = torch.nn.Linear(1024, 1024, bias=False).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for step in range(STEPS):
    model(torch.ones(1024 * ROWS, 1024, device="cuda")).relu().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def train(rows, steps=6):
    return TRAIN.replace("ROWS", str(rows)).replace("STEPS", str(steps))


def capacity(gpu, nccl):
    figures = {key: one["value"] for key, one in json.loads((PROFILES / f"{gpu}.json").read_text())["torch"].items()}
    return figures["total_bytes"] - figures["context_bytes"] - (figures["nccl_bytes"] if nccl else 0)


def record_of(folder):
    return json.loads((folder / "report.json").read_text())


# holds: harness/exec/README.md, Exit code
def test_out_of_memory():
    """The answer comes first, with what the program needs, which a run with room measures; the last line is a command. All files say the same."""
    with_room = FOLDER / "room.json"
    python(train(8), "--capacity", "64GiB", "--out", with_room).ends(0)
    (one,) = json.loads(with_room.read_text())["trials"][0]["program"]["ranks"]
    needed = one["devices"][0]["reserved"]
    folder = FOLDER / "full"
    result = python(train(8), "--capacity", "100MiB", "--report", folder).ends(1)
    answer = next(line for line in result.err.splitlines() if line.startswith("tidemark: out of memory") and "runs once more" not in line)
    result.check(re.search(r" in forward of step 1: <module> <string>:\d+ wanted 32 MiB: at most \d+ MiB were reserved of the 100 MiB that PyTorch can have on h100-80g; with room the program "
                           rf"reserves {needed // MIB} MiB, {needed // MIB - 100} MiB more", answer), f"the answer, of {needed} bytes")
    finding = f"python3 -c: out of memory in forward of step 1: it needs {needed // MIB - 100} MiB more than the 100 MiB that PyTorch can have on h100-80g".replace("python3", Path(sys.executable).name)
    lines = [line for line in result.err.splitlines() if line.startswith("tidemark: ")]
    result.check(lines[-2:] == ["tidemark: " + finding, answer] and result.err.index(answer) < result.err.index("peaks, MiB"), "it comes first")
    result.check(re.fullmatch(r"what would help: tidemark advise --capacity 100MiB -- \S+ -c '.*'\n", result.err[result.err.rindex("what would help"):], re.S), "the last line is a command")
    report = record_of(folder)
    program = report["trials"][0]["program"]
    result.check(program["needs"]["reserved"] == needed and "until" not in program["needs"], "what it needs")
    result.check(report["summary"]["exit_code"] == program["exit_code"] == 1 and answer == "tidemark: " + program["findings"][0], "the record has both")
    error = next(xml.parse(folder / "junit.xml").iter("error"))
    result.check(error.get("message") == finding and (folder / "summary.md").read_text().startswith(f"# {finding}\n"), "junit.xml and summary.md")
    result.check(f">{finding}</h1>" in (folder / "report.html").read_text(), "the page's heading")
    result.check(sorted(file.suffix for file in (folder / "room").iterdir()) == [".gz", ".record"], "the record of the run with room")
    quiet = python(train(8), "--capacity", "100MiB", "--no-room").ends(1)
    quiet.check("with room" not in quiet.err, "--no-room")
    caught = python("try: torch.empty(1 << 30, device='cuda')\nexcept torch.OutOfMemoryError: pass", "--capacity", "100MiB").ends(0)
    caught.check("runs once more" not in caught.err, "a program that goes on is not run again")


# holds: harness/fit/README.md, Capacity
def test_one_capacity():
    """Without a flag a program has the capacity of fit: with NCCL from the first communicator on."""
    group = "import torch.distributed as dist\ndist.init_process_group('nccl', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)\ndist.all_reduce(torch.ones(1, device='cuda'))\n"
    for gpu in drawn(["t4-16g", "l4-24g", "a100-40g", "h100-80g"], 4):
        for nccl in (False, True):
            can = capacity(gpu, nccl) // (2 * MIB) * 2 * MIB
            held = (2 * MIB if nccl else 0)
            taking = (group if nccl else "") + "print(torch.cuda.mem_get_info()[0])\nx = torch.empty({}, dtype=torch.uint8, device='cuda')"
            out = FOLDER / f"{gpu}-{nccl}.json"
            fits = python(taking.format(can - held), "--gpu", gpu, "--out", out, "--schedule", "instant").ends(0, f"fits {gpu}: at most ")
            fits.check(0 <= capacity(gpu, nccl) - held - int(fits.out) < 2 * MIB, f"what is free: {fits.out}, {capacity(gpu, nccl)}")
            fits.check(json.loads(out.read_text())["run"]["device"]["capacity_bytes"] == capacity(gpu, nccl), "the record has it")
            python(taking.format(can + 2 * MIB), "--gpu", gpu, "--no-room").ends(1, "out of memory")
    python("x = torch.empty(14 << 30, dtype=torch.uint8, device='cuda')", "--gpu", "t4-16g", "--reserve", "2GiB", "--no-room").ends(1, "of the 13 GiB that PyTorch can have")
    python("x = torch.empty(15 << 30, dtype=torch.uint8, device='cuda')", "--gpu", "t4-16g", "--reserve", "0B").ends(0, "fits t4-16g")
    Said("--reserve", "90GiB", "--", "true").refuses("--reserve 90GiB", "leaves nothing")
    Said("--reserve", "some", "--", "true").refuses("--reserve some")


def test_fits():
    taking = "x = torch.empty(15 << 30, dtype=torch.uint8, device='cuda')"
    result = python(taking, "--fits", "t4-16g,l4-24g").ends(5, "FAIL --fits t4-16g: ", "reserves 15 GiB, 592 MiB more than the 14.4 GiB that PyTorch can have", "\n--fits l4-24g: 15 GiB are reserved at most, of 21.8 GiB\n")
    result.check(result.err.count("FAIL") == 1, "one line a check")
    cached = "for i in (9, 8, 7):\n    x = torch.empty(i << 30, dtype=torch.uint8, device='cuda')\n    del x\n    y = torch.empty((i << 30) + (1 << 28), dtype=torch.uint8, device='cuda')\n    del y\n"
    python(cached, "--fits", "t4-16g").ends(5, "less is allocated, so it may fit there: --gpu t4-16g runs it at that size")
    python(cached, "--gpu", "t4-16g", "--fits", "t4-16g").ends(0, "--fits t4-16g: ")
    python("x = torch.empty(30 << 30, device='cuda')", "--gpu", "t4-16g", "--no-room", "--fits", "l4-24g").ends(1, "FAIL --fits l4-24g: ", "ran out of memory")
    Said("--fits", "t4", "--", "true").refuses("--fits t4: no GPU profile 't4' (did you mean t4-16g?); there are: ")
    Said("--fits", "4t", "--", "true").refuses("--fits 4t: no GPU profile '4t'; there are: ")
    Said("--fits", "t4-16g", "--", "true").ends(5, "FAIL unknown: no process has recorded CUDA memory")


def annotations_of(result):
    """The lines for a job of CI, each with the name of its check."""
    lines = [line for line in result.err.splitlines() if line.startswith("::error ")]
    found = [re.fullmatch(r"::error file=(\w+\.py),line=\d+,title=--([\w-]+)::--.*", line) for line in lines]
    result.check(all(found), f"a line for a job of CI: {lines}")
    return [one.groups() for one in found]


def test_no_growth():
    """What grows fails, and is a line at the program's line in a job of CI."""
    leak = [sys.executable, HERE / "leak.py"]
    grows = Said("--report", FOLDER / "leak", "--no-growth", "--max-peak", "1MiB", "--", *leak, "total", folder=HERE, GITHUB_ACTIONS="true")
    grows.ends(5, "FAIL --no-growth: ", "held by `total` in train")
    grows.check(grows.err.index("grows by") < grows.err.index("peaks, MiB"), "the answer first")
    grows.check(record_of(FOLDER / "leak")["summary"]["exit_code"] == 5, "the same exit code")
    grows.check(sorted(annotations_of(grows)) == [("leak.py", "max-peak"), ("leak.py", "no-growth")], "a line for each check")
    Said("--report", FOLDER / "flat", "--no-growth", "--", *leak, "none").ends(0, "--no-growth: none")
    python(train(1, 2), "--report", FOLDER / "short", "--no-growth").ends(5, "FAIL --no-growth: unknown: the program made 2 steps, and at least 5 show it")
    Said("--no-growth", "--", "true").refuses("--no-growth needs --report")


def test_annotations():
    """In a job of CI each failure is a line at the line of the program, on whatever many ranks, and nowhere else."""
    (FOLDER / "large.py").write_text("import os, torch\nx = torch.empty((2 + 20 * int(os.environ.get('RANK', 0))) << 20, dtype=torch.uint8, device='cuda')\n")
    for ranks, job in ((1, {"GITHUB_ACTIONS": "true"}), (2, {"GITLAB_CI": "true"}), (1, {"GITHUB_ACTIONS": "", "GITLAB_CI": ""})):
        report = FOLDER / f"ci{''.join(job)}"
        result = Said("--report", report, "--ranks", ranks, "--max-peak", "1MiB", "--", sys.executable, "large.py", folder=FOLDER, **job).ends(5)
        result.check(annotations_of(result) == ([("large.py", "max-peak")] if "true" in job.values() else []), f"in {job}")
        worst = f"rank {ranks - 1} reserves {22 if ranks == 2 else 20} MiB, "
        for line in result.err.splitlines():
            if line.startswith(("FAIL --max-peak", "::error")):
                result.check(worst in line and line.endswith(" more than 1 MiB" + (" (the worst of 2)" if ranks == 2 else "")), f"{line}: the worst rank of {ranks}")
    result.check("::error" not in (report / "summary.md").read_text(), "none elsewhere")


def test_two_processes_of_one_rank():
    """A launcher of a name that is not known is not refused, and what it does is said."""
    twice = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import torch; torch.ones(1, device=0)'], check=True)\nx = torch.ones(1, device='cuda')"
    python(twice, "--ranks", 1).ends(0, "tidemark: 2 processes are rank 0, each with a row of its own")


def test_launchers_are_refused():
    """A program that starts ranks is not started once for each rank."""
    program = ["train.py", "--launcher", "torchrun"]
    launchers = [["torchrun", "--nproc-per-node", "2"], ["/usr/bin/torchrun"], ["accelerate", "launch"], ["deepspeed"], ["mpirun", "-n", "2", "python3"], ["srun", "python3"],
                 ["python3", "-m", "torch.distributed.run"], ["python3.11", "-u", "-m", "torch.distributed.launch"]]
    for launcher in launchers:
        for flags in (["--ranks", "2"], ["--as-rank", "0", "--of", "4"]):
            Said(*flags, "--", *launcher, *program).refuses("starts ranks of its own")
    for words in (["python3", *program], ["accelerate", "env"], ["python3", "-m", "http.server"]):
        result = Said("--ranks", "2", "--races", "on", "--max-peak", "x", "--", *words)
        result.check("starts ranks" not in result.err, "another program")


# holds: harness/exec/README.md, One GPU for several processes
def test_shared_gpu():
    """Processes that use one GPU at the same time have it together: whether they fit is not known where their peaks do not. Each runs with its own amount
    on the GPU that is drawn for it, at the time of the other one, or after it."""
    fits = re.compile(r"^tidemark: fits h100-80g: at most 50 GiB are reserved", re.M)
    for where, bytes_each, waits, visible in drawn([("0", 50, True, ""), ("rank", 50, True, ""), ("0", 50, True, "rank"), ("0", 50, False, ""), ("1", 50, True, "0,2"), ("0", 30, True, "")], 3):
        folder = FOLDER / "".join(letter for letter in f"shared{where}{bytes_each}{waits}{visible}" if letter.isalnum())
        folder.mkdir()
        result = python(f"""
import os, sys, time
rank = int(os.environ["RANK"])
if {visible!r}:
    os.environ["CUDA_VISIBLE_DEVICES"] = ({visible!r}).replace("rank", str(rank))
def others(name):
    until = time.monotonic() + 120
    while not os.path.exists(name) and time.monotonic() < until:
        time.sleep(0.02)
if not {waits} and rank == 1:
    others("first")
    other = int(open("first").read())
    while os.path.exists(f"/proc/{{other}}") and open(f"/proc/{{other}}/stat").read().split()[2] != "Z":
        time.sleep(0.02)
block = torch.empty({bytes_each} << 30, dtype=torch.uint8, device="cuda:" + {where!r}.replace("rank", str(rank)))
open("there%d" % rank, "w").close()
if {waits}:
    others("there%d" % (1 - rank))
elif rank == 0:
    open("new", "w").write(str(os.getpid()))
    os.rename("new", "first")
""", "--ranks", "2", "--devices", "2", "--fits", "h100-80g", folder=folder)
        together = waits and bytes_each == 50 and "rank" not in (where, visible)
        result.ends(5 if together else 0)
        gpu = "2" if visible == "0,2" else "0"
        both = f"rank 0{' cuda:1' * (where == '1')} and rank 1{' cuda:1' * (where == '1')}"
        answer = rf"tidemark: whether it fits h100-80g is not known: {both} use GPU {gpu} at the same time, and their peaks together are 100\.\d GiB, 22\.\d GiB more than the 78\.3 GiB"
        result.check(bool(re.search(answer, result.err)) == together, "they have the GPU together")
        result.check(f"--fits h100-80g: unknown: {both} use GPU" in result.err or not together, "nor is the check passed")
        result.check(together or bytes_each == 30 or fits.search(result.err), "each fits")


# night: two ranks that run twice; exec_shared_gpu has processes that fit by day
def test_shared_gpu_is_full():
    """A process that runs out of memory lacks also what the others have of its GPU."""
    draw = random.Random(seed())
    own, others = draw.randint(1, 9), draw.randint(1, 9)
    result = python(f"""
import os, time
rank = int(os.environ["RANK"])
block = torch.empty((({others} << 30) if rank else ({own} << 30)), dtype=torch.uint8, device="cuda:0")
open(f"there{{rank}}", "w").close()
while not os.path.exists(f"there{{1 - rank}}"):
    time.sleep(0.02)
time.sleep(2)  # what a process that is ended has told is at most half a second old
if rank == 0:
    torch.empty(80 << 30, dtype=torch.uint8, device="cuda:0")
time.sleep(9)
""", "--ranks", "2", "--no-room", folder=FOLDER).ends(1)
    result.check(re.search(rf"tidemark: rank 0 and rank 1 use GPU 0 at the same time, and here each has a whole GPU: there rank 0 lacks also what the others have of it, {others}(\.\d+)? GiB at their peaks\n",
                           result.err), f"{own} and {others}")
