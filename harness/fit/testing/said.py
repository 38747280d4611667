"""What the tests of `tidemark fit` share."""
import json
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "exec" / "testing"))
import said as of_exec  # noqa: E402
from said import FOLDER, MIB, SITE, drawn  # noqa: E402, F401

TIDEMARK = Path(of_exec.TIDEMARK)
(FOLDER / "tmp").mkdir()
OWN = {"TMPDIR": str(FOLDER / "tmp"), "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(FOLDER / "cache")}
ENVIRONMENT = {**os.environ, **OWN, "PYTHONPATH": SITE}

# A step has 8 MiB of parameters, gradients and two states of the optimizer each, and activations of 4 MiB a row of the batch.
TRAIN = """
import os, sys, torch
batch = int(sys.argv[1])
model = torch.nn.Linear(1024, 2048, bias=False).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(int(os.environ.get("STEPS", "3"))):
    x = torch.ones(512 * batch, 1024, device="cuda")
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

# Four blocks and a head; its argument names changes that are made by hand.
CHANGED = """
import sys, torch
from torch.utils.checkpoint import checkpoint
made = sys.argv[1].split(",")

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(512, 2048), torch.nn.Linear(2048, 512)
    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = torch.nn.ModuleList(Block() for _ in range(4)), torch.nn.Linear(512, 1000)
    def forward(self, x):
        for at, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if "all" in made or "half" in made and at % 2 == 0 else block(x)
        return self.head(x)

model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False if "plain" in made else None, fused=True if "fused" in made else None)
for _ in range(4):
    y = model(torch.ones(4096, 512, device="cuda"))
    assert y.dtype == torch.float32, "needs float32"
    torch.nn.functional.cross_entropy(y, torch.zeros(4096, dtype=torch.int64, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none="none" in made)
"""


class Said(of_exec.Said):
    """One call of the command; its answers are on stdout."""

    def __init__(self, *words, command="fit", **more):
        super().__init__(*words, command=command, folder=FOLDER, most=500, **{**OWN, **more})

    def ends(self, code, *texts):
        super().ends(code)
        for text in texts:
            self.check(text in self.out + self.err, f"no {text!r}")
        return self


def script(name, text):
    (FOLDER / name).write_text(text)
    return name


def fit(*words, **more):
    out = FOLDER / f"out{time.monotonic_ns()}.json"
    result = Said("--out", out, *words, **more)
    result.record = json.loads(out.read_text()) if out.exists() else None
    return result


def exec_peaks(gpu, capacity, *command, **more):
    """Exit code and peaks of a run of `tidemark exec`."""
    out = FOLDER / f"exec{time.monotonic_ns()}.json"
    Said("--gpu", gpu, "--capacity", capacity, "--out", out, "--", *command, command="exec", **more)
    (trial,) = json.loads(out.read_text())["trials"]
    program = trial["program"]
    device, = program["ranks"][0]["devices"]
    return program["exit_code"], device
