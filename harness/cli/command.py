"""The command of sys.argv[1], started on the virtual device or as on a GPU (rehearsed) in an environment without TIDEMARK_ settings; cases that are
quick; the reader of its reports; and a fixture."""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

from checks import without_mpirun

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "reports"))
from reading import read  # noqa: E402, F401

BINARY = str(pathlib.Path(sys.argv[1]).resolve())
CASES = ["fsdp_prefetch/stash/smoke", "fsdp_prefetch/separate_streams/smoke", "tp_buffer_reuse/recompute/smoke",
         "frozen_reshard/input_node/smoke", "zero_bubble_detach/detach_outputs/smoke"]


def environment(rehearsed=False, **more):
    mine = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
    return {**mine, **({"TIDEMARK_PLATFORM": "cuda"} if rehearsed else {}), **more}


def run(*words, cwd, rehearsed=False, launcher=(), **more):
    return subprocess.run([*launcher, BINARY, *map(str, words)], capture_output=True, text=True, cwd=cwd, env=environment(rehearsed, **more))


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


class Commands(unittest.TestCase):
    """Runs of the command in self.folder. Their words are parts of a line: one may be several words."""

    def tidemark(self, *words, **more):
        return run(*shlex.split(" ".join(map(str, words))), cwd=self.folder, **more)

    def passes(self, *words, **more):
        done = self.tidemark(*words, **more)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
        return done

    def refuses(self, code, says, *words, **more):
        """A mistake is one line on stderr, and its exit code."""
        done = self.tidemark(*words, **more)
        self.assertEqual((done.returncode, without_mpirun(done.stderr).count("\n"), done.stdout), (code, 1, ""), f"{words} {more}: {done.stderr}")
        self.assertIn(says, done.stderr, f"{words} {more}")


class InFolder(Commands):
    """Each test has a folder of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
