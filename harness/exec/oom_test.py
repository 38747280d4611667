"""Out of memory, and memory outside PyTorch's allocator: every figure is PyTorch's own, and the driver's."""
import json
import re
import sys

from testing.said import FOLDER, HERE, MIB, Said, drawn, python, seed

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
FIGURE = r"([\d.]+) (bytes|KiB|MiB|GiB)"
DEVICES = 6


def near(text, exact):
    """True if `exact` bytes round to the figure of two digits, as PyTorch writes it."""
    number, unit = text
    return abs(float(number) * UNITS[unit] - exact) <= (0 if unit == "bytes" else 0.00501 * UNITS[unit])


def written(bytes_):
    """Figures as tidemark's sentences have them: three digits."""
    for unit in ("GiB", "MiB", "KiB"):
        if bytes_ >= UNITS[unit]:
            value = bytes_ / UNITS[unit]
            return rf"{value:.0f}(?:\.0+)? {unit}|{value:.1f} {unit}|{value:.2f} {unit}"
    return f"{bytes_} bytes"


def said_by_pytorch(message):
    found = {"asked": rf"Tried to allocate {FIGURE}\.", "free": rf"of which {FIGURE} is free", "used": rf"this process has {FIGURE} memory in use",
             "limit": rf"{FIGURE} allowed", "allocated": rf"Of the allocated memory {FIGURE} is allocated", "pools": rf"with {FIGURE} allocated in private pools",
             "unallocated": rf"and {FIGURE} is reserved by PyTorch but unallocated"}
    return {name: match.groups() for name, form in found.items() if (match := re.search(form, message))}


def test_messages():
    """On six GPUs a program runs out of memory after steps that are drawn: memory fractions, private pools of graphs and MemPools, memory outside the
    allocator, frees that wait, small requests. Each figure of the record is the one in PyTorch's own message, and the sentence has them."""
    number, folder = seed(), FOLDER / "messages"
    result = Said("--devices", DEVICES, "--capacity", "400MiB", "--schedule", "calibrated", "--report", folder, "--", sys.executable, HERE / "full.py", "full", number,
                  DEVICES).ends(0)
    messages = {int(device): text for device, text in re.findall(r"^message (\d+) (.*)$", result.out, re.M)}
    result.check(len(messages) == DEVICES, f"each GPU ran out of memory (TIDEMARK_TEST_SEED={number})")
    record, = folder.glob("*.record")
    shown = json.loads(Said("show", "--format", "json", record, command="snapshot").ends(0).out)
    page = (folder / "report.html").read_text()
    for device in shown["devices"]:
        oom, message = device["oom"], messages[device["device"]]
        theirs, where = said_by_pytorch(message), f"cuda:{device['device']}, TIDEMARK_TEST_SEED={number}: {message}\n{oom}"
        ours = {"asked": oom["asked"], "free": oom["device_free"], "used": oom["reserved"] + oom["outside"], "limit": oom["limit"],
                "allocated": oom["allocated"] + oom["free_in_pools"], "pools": oom["free_in_pools"] or None,
                "unallocated": oom["reserved"] - oom["allocated"] - oom["free_in_pools"]}
        result.check(set(theirs) == {name for name, value in ours.items() if value is not None}, f"the same figures: {where}")
        for name, text in theirs.items():
            result.check(near(text, ours[name]), f"{name}: {text} for {ours[name]:,}: {where}")
        sentence = re.search(rf"cuda:{device['device']}: out of memory: .*? wanted .*?(?=\.<|\. *$)", page.replace("\n", " "))
        result.check(sentence is not None, f"the page has the sentence: {where}")
        for name, exact in [("asked", oom["asked"] if oom["asked"] > oom["wanted"] else None), ("free", oom["device_free"]), ("reserved", oom["reserved"] or None),
                            ("outside", oom["outside"] or None), ("limit", oom["limit"]), ("in use", oom["allocated"]), ("pools", oom["free_in_pools"] or None),
                            ("pending", oom["active"] - oom["allocated"] or None), ("gaps", oom["reserved"] - oom["active"] - oom["free_in_pools"] or None)]:
            result.check(exact is None or re.search(rf"(?<![\d.])(?:{written(exact)})", sentence[0]), f"{name}, {exact}: {sentence[0]}")


def test_books():
    """Memory outside the allocator, taken and given back between the allocator's own, also where that maps its segments part by part: the peak of it, and of
    both together, are those that the program counts itself."""
    for conf in drawn(["", "expandable_segments:True", "garbage_collection_threshold:0.5", "max_split_size_mb:24"], 4):
        number, out = seed(), FOLDER / "books.json"
        result = Said("--out", out, "--force", *(["--alloc-conf", conf] if conf else []), "--", sys.executable, HERE / "full.py", "books", number).ends(0)
        most, all_most = map(int, re.search(r"^outside (\d+) taken (\d+)$", result.out, re.M).groups())
        device = json.loads(out.read_text())["trials"][0]["program"]["ranks"][0]["devices"][0]
        result.check((device["outside"], device["taken"]) == (most, all_most), f"{conf} (TIDEMARK_TEST_SEED={number}): {device} for {most:,} and {all_most:,}")
        result.check("outside PyTorch's allocator" in result.err and re.search(r"^peaks, \w+ .* outside ", result.err, re.M), "a line and a column")


def test_outside_counts():
    """Checks, the capacity and the sentence of a request that the driver refused know memory outside the allocator."""
    take = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.13" if torch.version.cuda.startswith("13") else "libcudart.so.12")
place = ctypes.c_void_p()
a = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
for _ in range(3):
    if cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(50 << 20)): raise SystemExit(7)
"""
    result = python(take, "--max-peak", "100MiB", "--fits", "t4-16g").ends(5)
    result.check(re.search(r"FAIL --max-peak: process \d+ takes 180 MiB, with 150 MiB outside PyTorch's allocator, 80 MiB more than 100 MiB\n", result.err), "the check fails")
    result.check("--fits t4-16g: 180 MiB are taken at most, of " in result.err, "what fits")
    python(take, "--max-peak", "190MiB").ends(0, "--max-peak: 180 MiB are taken at most, of 190 MiB")
    refused = python(take, "--capacity", "100MiB").ends(7)
    refused.check("the device refused 50 MiB outside PyTorch's allocator: 20 MiB were free, beside 30 MiB reserved and 50 MiB outside the allocator" in refused.err, "why")
    own = python("a = torch.empty(30 << 20, dtype=torch.uint8, device='cuda')", "--max-peak", "100MiB").ends(0, "--max-peak: 30 MiB are reserved at most, of 100 MiB")
    own.check("outside" not in own.err, "nothing lies outside")


def test_limit():
    """The limit of a process is that of its memory fraction: in the sentences, and in what is lacking."""
    for part, capacity in drawn([(0.25, 1000), (0.5, 800), (0.75, 400)], 3):
        limit = int(part * capacity * MIB)
        held, wanted = 64 * MIB, limit - 32 * MIB
        program = f"torch.cuda.set_per_process_memory_fraction({part})\nkept = torch.empty({held}, dtype=torch.uint8, device='cuda')\n" \
                  f"torch.empty({wanted}, dtype=torch.uint8, device='cuda')"
        result = python(program, "--capacity", f"{capacity}MiB", "--report", FOLDER / f"limit{capacity}").ends(1)
        result.check(re.search(rf"process may have (?:{written(limit)}) \(its memory fraction\): 64 MiB in use\n", result.err), "what it had")
        result.check(result.err.count("32 MiB more") == 2 and "lacking" not in result.err, "one figure of what is lacking: that of the run with room")
        result.check(re.search(rf"at most 64 MiB were reserved of the (?:{written(limit)}) that the process may have", result.err), "the limit, not the GPU's memory")
    alone = python("torch.empty(5 << 30, dtype=torch.uint8, device='cuda')", "--capacity", "4GiB", "--no-room", "--report", FOLDER / "alone").ends(1)
    alone.check("the device had 4 GiB free; at least 1 GiB are lacking\n" in alone.err, "without that run, what is lacking at least")
    more = python("torch.empty(4 << 50, dtype=torch.uint8, device='cuda')", "--report", FOLDER / "beyond").ends(1)
    more.check("; the run with room does not show what it needs: it ended with exit code 1\n" in more.err and "at least 0 bytes" not in more.err, "what not even room has")
