"""The command of TIDEMARK_BIN, started on the virtual device or as on a GPU (rehearsed) in an environment without TIDEMARK_ settings; cases that are
quick; and the reader of its reports."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "reports"), str(ROOT / "harness" / "testing")]
from part import drawn, seed  # noqa: E402, F401
from reading import read  # noqa: E402, F401
from valid import check_written  # noqa: E402

BINARY = os.path.abspath(os.environ.get("TIDEMARK_BIN", ROOT / "build/dev/tidemark"))
CASES = ["fsdp_prefetch/stash/smoke", "fsdp_prefetch/separate_streams/smoke", "tp_buffer_reuse/recompute/smoke",
         "frozen_reshard/input_node/smoke", "zero_bubble_detach/detach_outputs/smoke"]


def environment(rehearsed=False, **more):
    mine = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
    return {**mine, **({"TIDEMARK_PLATFORM": "cuda"} if rehearsed else {}), **more}


def run(*words, cwd=None, rehearsed=False, launcher=(), **more):
    begun = time.time()
    done = subprocess.run([*launcher, BINARY, *map(str, words)], capture_output=True, text=True, cwd=cwd, env=environment(rehearsed, **more), check=False)
    check_written(BINARY, words, begun, cwd)
    return done


def tidemark(*words, **more):
    """The words are parts of a line: one may be several words."""
    return run(*shlex.split(" ".join(map(str, words))), **more)


def passes(*words, **more):
    done = tidemark(*words, **more)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done


def refuses(code, says, *words, **more):
    """A mistake is one line on stderr, and its exit code."""
    done = tidemark(*words, **more)
    seen = f"{words} {more}: exit code {done.returncode}: {done.stdout}{done.stderr}"
    assert (done.returncode, without_mpirun(done.stderr).count("\n"), done.stdout) == (code, 1, ""), seen
    assert says in done.stderr, seen


def without_mpirun(stderr):
    """What the ranks said, without what mpirun says of their exit codes; Open MPI 5 has no option for that."""
    return re.sub(r"(?ms)^-{70,}\n.*?^-{70,}\n\n?", "", stderr)


def environments():
    """Of every process that runs now: its id and its environment."""
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                text = (process / "environ").read_bytes().decode(errors="replace")
            except OSError:  # it has ended
                continue
            yield int(process.name), dict(part.split("=", 1) for part in text.split("\0") if "=" in part)


def processes_of(out):
    """The processes that still run for a run with this output folder."""
    return [process for process, variables in environments() if variables.get("TIDEMARK_OUT", "").startswith(str(out))]


def runs_scenarios(process):
    """Whether it is tidemark's program of scenarios: a launching process or a rank."""
    try:
        return os.path.basename(os.readlink(f"/proc/{process}/exe")) == "tidemark_scenarios"
    except OSError:  # it has ended
        return False
