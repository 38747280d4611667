"""Bounds of what is recorded: at, below and above each, nothing is left out without a word."""
import json
import sys

import pytest
from testing.said import FOLDER, Said, drawn

DEVICES, FRAMES = 64, 1000  # harness/memory/format/format.h


@pytest.mark.parametrize("device", drawn([0, 15, 16, DEVICES - 1], 4))
def test_devices(device):
    """A program's memory counts on each device that it can have."""
    (FOLDER / "on.py").write_text("import sys, torch\nx = torch.empty(500 << 20, dtype=torch.uint8, device=f'cuda:{sys.argv[1]}')\n")
    said = Said("--devices", device + 1, "--max-peak", "100MiB", "--", sys.executable, "on.py", device, folder=FOLDER).ends(5, "--max-peak")
    said.check("reserves 500 MiB" in said.err, "the bytes of the device")


def test_no_more_devices():
    Said("--devices", DEVICES + 1, "--", "true").ends(2, "--devices")


@pytest.mark.parametrize("depth", drawn([FRAMES - 20, FRAMES, FRAMES + 1, 3 * FRAMES], 4))
def test_frames(depth):
    """A stack of any depth leaves the list of what was alive whole; of one that is deeper than the bound the innermost frames stay."""
    (FOLDER / "deep.py").write_text(
        "import sys, torch\nsys.setrecursionlimit(100000)\ndef down(n):\n    return down(n - 1) if n else torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\nx = down(int(sys.argv[1]))\n")
    report = FOLDER / f"deep{depth}"
    said = Said("--report", report, "--", sys.executable, "deep.py", depth, folder=FOLDER).ends(0)
    said.check("is not known:" not in said.err and "has ended with a snapshot" not in said.err, "a snapshot is there")
    (trial,) = json.loads((report / "report.json").read_text())["trials"]
    assert any("deep.py:4" in str(part) for part in trial["alive"]["parts"]), trial["alive"]


@pytest.mark.parametrize("name", drawn(["a\nb.py", "c\rd.py", "e\u2028f.py"], 3))
def test_names_of_files(name):
    """Lines of a program whose file has a line break in its name."""
    (FOLDER / name).write_text("import torch\nx = torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\n")
    report = FOLDER / f"name{ord(name[1])}"
    said = Said("--report", report, "--", sys.executable, name, folder=FOLDER).ends(0)
    said.check("not read as it is" not in said.err and "no Python lines" not in said.err, "the stack is read")
    assert ".py:2" in (report / "report.json").read_text()
