"""A full TMPDIR: exec, fit and the pytest plugin name it. Needs root, who mounts a small file system in a namespace of the command's own."""
import os
import random
import re
import shutil
import subprocess
import sys

import pytest
from testing.said import FOLDER, ROOT, SITE, TIDEMARK, seed

SEED = seed()
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount a file system")
ROOM = (0, 4, 8, 24, 40, 64)  # KiB that are left: each lets more of what a run writes be written
# In a chroot the root is no mount, whose propagation could be changed.
MOUNTED = 'mount --make-rprivate / 2>/dev/null; mount -t tmpfs -o size=1M full "$TMPDIR" && (cat /dev/zero >"$TMPDIR/fill" 2>/dev/null; truncate -s "-$ROOM" "$TMPDIR/fill"); exec "$@"'
NAMES_IT = r"{place} is full: make room there, or set TMPDIR to another folder|{place}/\S+: No space left on device"


def full(kib, *words, **more):
    """A command whose TMPDIR has so much room; its folder is that of the test."""
    place = FOLDER / "temporary"
    place.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": SITE, **more, "TMPDIR": str(place), "ROOM": f"{kib}K"}
    done = subprocess.run(["unshare", "-m", "--propagation", "unchanged", "sh", "-c", MOUNTED, "sh", *map(str, words)], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout + done.stderr
    print(f"{kib} KiB: exit code {done.returncode}\n{said}")
    return done.returncode, said, re.compile(NAMES_IT.format(place=re.escape(str(place))))


@pytest.fixture
def room():
    print("TIDEMARK_TEST_SEED", SEED)
    (FOLDER / "little.py").write_text("import sys, torch\nx = torch.empty(72 << 20, dtype=torch.uint8, device='cuda')\nprint(x.numel())\n")
    return random.Random(SEED).choice(ROOM)


def test_exec(room):
    code, said, names_it = full(room, TIDEMARK, "exec", "--", sys.executable, "little.py")
    assert code == 0 or (code in (2, 3) and re.search(rf"(?m)^error: .*({names_it.pattern})", said))


def test_fit(room):
    code, said, names_it = full(room, TIDEMARK, "fit", "--vary", "batch=1,2", "--jobs", "1", "--gpu", "h100-80g", "--no-server", "--fresh", "--", sys.executable, "little.py", "{batch}")
    assert code == 0 or (code in (2, 3) and re.search(rf"(?m)^error: fit: .*({names_it.pattern})", said) and "does not fit" not in said)


# night: starts pytest and its server of tests for each amount of room; exec_full_fit and exec_full_exec hold the command's by day
def test_pytest():
    (FOLDER / "test_it.py").write_text("import tidemark, torch\ndef test_one(memory):\n    torch.empty(72 << 20, dtype=torch.uint8, device='cuda')\n"
                                       "@tidemark.ranks(2)\ndef test_two(memory):\n    torch.empty(72 << 20, dtype=torch.uint8, device='cuda')\n")
    path = os.pathsep.join([str(ROOT / "python"), SITE, os.environ["PYTHONPATH"]])
    for kib in (0, 8, 40):
        code, said, names_it = full(kib, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tidemark.plugin", "test_it.py", PYTHONPATH=path, TIDEMARK=TIDEMARK, COLUMNS="300")
        errors = re.findall(r"(?m)^ERROR test_it.py::\w+ - (.*)", said)
        assert code == (1 if errors else 0) and "Traceback" not in said
        assert all(names_it.search(line) for line in errors), errors
