#!/usr/bin/env python3
"""outside [--check | --write]: the memory of a GPU that PyTorch's allocator does not have, from out-of-memory messages that other people printed
(printed/outside.json). PyTorch prints the total and free memory of the GPU, that of the process, and what its allocator has (allocated, and reserved but
unallocated). What the process has beyond its allocator is the context, the libraries' workspaces and NCCL.

Prints every message with that difference, then what follows for each profile in harness/virtual/profiles:
  total    the smallest total that was printed for this GPU; without one, the profile's bytes less the largest known difference between both
  context  the largest difference of a program of one rank, without other libraries; without one, the largest of all profiles
  nccl     the largest difference of a program of several ranks, less the context; without one, the largest of all GPUs
--check: exit code 1 if a profile says something else. --write: writes it into the profiles."""
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROFILES = HERE.parent.parent / "harness" / "virtual" / "profiles"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PRINTED = "in reports/measured/printed/outside.json"


def size(text):
    figure, unit = text.split()
    return float(figure) * UNITS[unit]


def outside(row):
    return size(row["process"]) - size(row["allocated"]) - size(row["unallocated"])


def rounded(size_in_bytes):
    """As whole MiB: the messages have two digits behind the point of GiB."""
    return round(size_in_bytes / (1 << 20)) << 20


def derive(rows):
    profiles = {file.stem: json.loads(file.read_text()) for file in sorted(PROFILES.glob("*.json"))}
    all_bytes = {name: profile["memory"]["bytes"]["value"] for name, profile in profiles.items()}
    alone = [row for row in rows if row["ranks"] == 1 and "other" not in row]
    several = [row for row in rows if row["ranks"] > 1 and "other" not in row]

    def of(name, some):
        return [row for row in some if row.get("gpu") == name]

    largest_gap = max(all_bytes[row["gpu"]] - size(row["total"]) for row in rows if row.get("gpu"))
    largest_context = max(outside(row) for row in alone if row.get("gpu"))
    largest_several = max(map(outside, several))
    found = {}
    for name in profiles:
        totals = [size(row["total"]) for row in of(name, rows)]
        contexts = [outside(row) for row in of(name, alone)]
        with_nccl = [outside(row) for row in of(name, several)]
        context = rounded(max(contexts, default=largest_context))
        of_nccl = max(with_nccl, default=0) - context
        found[name] = {
            "total_bytes": (rounded(min(totals, default=all_bytes[name] - largest_gap)),
                            f"smallest total of {len(totals)} out-of-memory messages {PRINTED}" if totals else
                            "no message of this GPU is known: nvidia-smi's bytes less the largest difference of other profiles"),
            "context_bytes": (context, f"largest of {len(contexts)} out-of-memory messages {PRINTED}" if contexts else
                              "no message of this GPU is known: the largest of other profiles"),
            "nccl_bytes": (rounded(of_nccl) if of_nccl > 0 else max(0, rounded(largest_several) - context),
                           f"largest of {len(with_nccl)} out-of-memory messages of several ranks {PRINTED}" if of_nccl > 0 else
                           "no message of several ranks of this GPU is known: the largest of all GPUs"),
        }
    return found


def group(figures):
    return {key: {"value": value, "source": source} for key, (value, source) in figures.items()}


def with_group(text, figures):
    """The profile's text with the group `torch` behind the group `memory`."""
    lines = ",\n".join(f"    {json.dumps(key)}: {json.dumps(one)}" for key, one in group(figures).items())
    text = re.sub(r'  "torch": \{\n.*?\n  \},\n', "", text, flags=re.S)
    return text.replace('  "dense_tflops": {', '  "torch": {\n' + lines + '\n  },\n  "dense_tflops": {')


def main(arguments):
    rows = json.loads((HERE / "printed" / "outside.json").read_text())
    found = derive(rows)
    if arguments == ["--write"]:
        for name, figures in found.items():
            file = PROFILES / f"{name}.json"
            file.write_text(with_group(file.read_text(), figures))
        return 0
    if arguments == ["--check"]:
        wrong = [name for name, figures in found.items() if json.loads((PROFILES / f"{name}.json").read_text()).get("torch") != group(figures)]
        print("\n".join(f"{name}.json: the group torch is not what outside.py derives (outside.py --write)" for name in wrong) or
              f"{len(rows)} messages, {len(found)} profiles: as derived")
        return 1 if wrong or len(rows) < 30 else 0
    if arguments:
        print(__doc__)
        return 2
    for row in sorted(rows, key=lambda row: (row.get("gpu", "~"), outside(row))):
        print(f"{row.get('gpu', ''):12} {row['total']:>11} {outside(row) / UNITS['GiB']:6.2f} GiB  ranks {row['ranks']:2}  {row.get('other', ''):34} {row['printed']}")
    print()
    for name, figures in found.items():
        print(f"{name:12}", *(f"{key.removesuffix('_bytes')} {value / UNITS['GiB']:.2f} GiB" for key, (value, _) in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
