"""`tidemark exec` on other kinds of machines."""
from pathlib import Path

from testing.said import FOLDER, TIDEMARK, python


def test_visible():
    """A program that hides a device from itself, before CUDA starts, has one less."""
    result = python("import os\nprint(torch.cuda.device_count())\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nprint(torch.cuda.device_count())", "--devices", "3").ends(0)
    result.check(result.out == "3\n1\n", "one of three devices")


def test_pages():
    """Where a page has 64 KiB a program has the same report and values. Its pinned memory is filled at both ends, and zero between them."""
    program = """x = torch.ones(1 << 20, device='cuda')
pinned = torch.empty((4 << 20) + 5, pin_memory=True).fill_(2)
pinned.copy_(torch.empty_like(pinned, device='cuda'))
print(pinned[0].item(), pinned[2 << 20].item(), pinned[-1].item(), torch.cuda.max_memory_allocated())"""
    small = python(program, "--report", FOLDER / "small").ends(0, "alive at the highest peak")
    large = python(program, "--report", FOLDER / "large", LD_PRELOAD=str(Path(TIDEMARK).parent / "stand_in" / "liblarge_pages.so")).ends(0)
    figures = [[line for line in result.err.splitlines() if line[:1] == " "] for result in (small, large)]
    large.check(small.out.split()[:3] == ["1.0", "0.0", "1.0"] and large.out == small.out, f"the values: {small.out}")
    large.check(figures[0] == figures[1] and len(figures[0]) >= 4, f"what is alive: {figures}")
