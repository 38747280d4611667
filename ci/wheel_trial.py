"""The trial of a wheel (ci/wheel): an empty environment, where it is installed and used as a user does, without a compiler."""
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from environments import ROOT, stop


def run(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        stop(f"{' '.join(map(str, command[:6]))}: {(done.stderr or done.stdout).strip()[-2000:]}", 3)
    return done.stdout


PROGRAM = "import torch\nx = torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\nprint(torch.cuda.max_memory_allocated())\n"
TEST = """import tidemark, torch
@tidemark.ranks(2)
def test_two_ranks(memory, world):
    with memory.phase("forward"):
        x = torch.ones(1 << 20, device="cuda")
    memory.rise("forward").allocated.equals("4*n", n=1 << 20)
    torch.distributed.all_reduce(x)
    assert memory.collectives() == {"all_reduce": (1, 4 << 20)}

def test_ordinary():
    assert not torch.cuda.is_available() and torch.ones(3).sum() == 3
"""


def try_scenarios(inside, work, environment, pattern):
    """Scenarios on the PyTorch of the environment: those of the pattern by the own launcher, and one under each MPI that PyPI has."""
    environment = {**environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    wanted = json.loads(next((work / "an env" / "lib").glob("python*/site-packages/tidemark/platform/virtual/python/built.json")).read_text())["torch"]
    where = "from tidemark.command import folder_of; exec(open(folder_of('torch') + '/version.py').read()); print(__version__)"
    version = run(inside / "python", "-c", where, env=environment, cwd=work).strip()
    if version.split("+")[0] != wanted.split("+")[0]:
        refused = subprocess.run([inside / "tidemark", "run"], capture_output=True, text=True, check=False, env=environment, cwd=work)
        if refused.returncode != 3 or version not in refused.stderr or refused.stderr.count("\n") != 1:
            stop(f"tidemark run is not refused with torch {version}: {refused.stderr}", 1)
        return "scenarios refused by name"
    counts = []
    for name, launcher, chosen in (("own launcher", (), pattern), ("openmpi", ("mpirun", "-n", "2"), "fsdp_prefetch"), ("mpich", ("mpirun", "-n", "2"), "fsdp_prefetch")):
        if launcher:
            run(inside / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name)
        output = run(*(inside / word if word == "mpirun" else word for word in launcher), inside / "tidemark", "run", chosen, "--out", work / name, env=environment, cwd=work)
        counts.append(f"{name} {re.search(r'([0-9,]+) verdicts passed, 0 failed', output)[1]}")
        record = json.loads((work / name / "report.json").read_text())["run"]["mpi"]
        if launcher and {"openmpi": "Open MPI", "mpich": "MPICH"}[name] not in record:
            stop(f"under the mpirun of {name} the ranks were connected by {record}", 1)
        if launcher:
            run(inside / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "--disable-pip-version-check", name)
    return "verdicts passed: " + ", ".join(counts)


TRAIN = """import os, torch
from torch.nn.parallel import DistributedDataParallel
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
if "RANK" in os.environ:
    torch.distributed.init_process_group("nccl")
    model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if "RANK" in os.environ:
    torch.distributed.destroy_process_group()
"""
# What README.md says to do with a training program, as it stands there; and the whole command, where that is a part of one.
README = (
    ("tidemark exec --report gpt -- python3 harness/exec/testing/gpt.py 4", ""),
    ("tidemark exec -- torchrun --nproc-per-node 8 train.py", ""),
    ("--as-rank 0,511 --of 512", "tidemark exec {} -- python3 train.py"),
    ("tidemark fit --vary batch=1..64 --gpu a100-40g,h100-80g -- python3 harness/fit/testing/gpt.py --batch {batch} --recompute full", ""),
    ("tidemark advise", "{} -- python3 train.py"),
)


def time_readme(inside, work, environment):
    """A table: seconds of each of README's commands for a training program. `work` is the folder they run in."""
    readme = " ".join((ROOT / "README.md").read_text().replace("\\\n", " ").split())
    (work / "train.py").write_text(TRAIN)
    (work / "harness").symlink_to(ROOT / "harness")
    (inside / "torchrun").write_text("#!/bin/sh\nexec python -m torch.distributed.run \"$@\"\n")  # what torch's wheel installs
    (inside / "torchrun").chmod(0o755)
    print("| command | seconds |\n|---|---:|")
    for text, whole in README:
        if text not in readme:
            stop(f"README.md does not have: {text}", 1)
        line = whole.replace("{}", text) if whole else text
        begun = time.monotonic()
        run("bash", "-c", line, env=environment, cwd=work)
        print(f"| `{line}` | {time.monotonic() - begun:.0f} |", flush=True)


def version_of(python, environment):
    return run(python, "-c", "import tidemark; print(tidemark.__version__)", env=environment).strip()


def attempt(wheel, python, pattern, readme):
    """The wheel in an empty environment."""
    with tempfile.TemporaryDirectory() as work:
        begun, work = time.monotonic(), Path(work)
        run(python, "-m", "venv", work / "an env")
        inside = work / "an env" / "bin"
        run(inside / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        run(inside / "python", "-m", "pip", "check", "--disable-pip-version-check")  # of the wheel: the trial's torch has none of NVIDIA's packages
        torch = run(python, "-c", "import importlib.util, os; print(os.path.dirname(importlib.util.find_spec('torch').submodule_search_locations[0]))").strip()
        (next((work / "an env" / "lib").glob("python*")) / "site-packages" / "torch_of_the_trial.pth").write_text(torch + "\n")
        installed = time.monotonic() - begun
        (work / "program.py").write_text(PROGRAM)
        (work / "test_it.py").write_text(TEST)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("TIDEMARK", "PYTHON", "LD_"))}
        environment.update(PATH=f"{inside}:/usr/bin:/bin", CXX="none", XDG_CACHE_HOME=str(work))  # nothing can be compiled
        versions = [run(*words, env=environment, cwd=work) for words in ((inside / "tidemark", "--version"), (inside / "python", "-m", "tidemark", "--version"))]
        if versions[0] != versions[1] or version_of(inside / "python", environment) not in versions[0].split():
            stop(f"the versions differ: {versions}", 1)
        output = run(inside / "tidemark", "exec", "--report", work / "report", "--", inside / "python", work / "program.py", env=environment, cwd=work)
        if output.strip() != str(3 << 20) or "peak of 3 MiB" not in (work / "report" / "report.html").read_text():
            stop(f"the program's report is not what it should be: {output}", 1)
        output = run(inside / "python", "-m", "pytest", "-q", work / "test_it.py", env=environment, cwd=work)
        if "2 passed" not in output:
            stop(output, 1)
        tried = time.monotonic() - begun - installed
        print(f"tried in an empty environment: installed in {installed:.0f} s, a program with its report and a test of two ranks in {tried:.0f} s; ", end="", flush=True)
        print(try_scenarios(inside, work, environment, pattern), flush=True)
        if readme:
            time_readme(inside, work, environment)
