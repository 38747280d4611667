"""Parts that the tests of a GPU's code share: the command, started as on a GPU or on the virtual device, and cases that
are quick."""
import os
import pathlib
import subprocess
import sys

BINARY = str(pathlib.Path(sys.argv[1]).resolve())
CASES = ["fsdp_prefetch/stash/smoke", "fsdp_prefetch/separate_streams/smoke", "tp_buffer_reuse/recompute/smoke",
         "frozen_reshard/input_node/smoke", "zero_bubble_detach/detach_outputs/smoke"]


def environment(rehearsed, **more):
    mine = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
    return {**mine, **({"TIDEMARK_PLATFORM": "cuda"} if rehearsed else {}), **more}


def run(*words, cwd, rehearsed=False, launcher=(), **more):
    return subprocess.run([*launcher, BINARY, *map(str, words)], capture_output=True, text=True, cwd=cwd, env=environment(rehearsed, **more))
