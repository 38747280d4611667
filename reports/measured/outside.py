#!/usr/bin/env python3
"""outside [--check | --write]: the memory of a GPU that PyTorch's allocator does not have, from out-of-memory messages that other people printed
(printed/outside.json) and from the recordings of programs on GPUs (PROFILE/*.json.gz). PyTorch prints the total and free memory of the GPU, that of the
process, and what its allocator has (allocated, and reserved but unallocated). What the process has beyond its allocator is the context, the libraries'
workspaces and NCCL.

Prints every message and recording with that difference, then what follows for each profile in harness/virtual/profiles:
  total    the smallest total that is known for this GPU; without one, the profile's bytes less the largest known difference between both
  context  the largest difference of a program of one rank, without other libraries; without one, the largest of all profiles
  nccl     the largest difference of a message of several ranks, less the context; without one, the largest of all GPUs. Recordings of several ranks
           do not count: theirs share a GPU, and NCCL sends through sockets, with smaller buffers
--check: exit code 1 if a profile says something else. --write: writes it into the profiles."""
import gzip
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROFILES = HERE.parent.parent / "harness" / "virtual" / "profiles"
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PRINTED = "in reports/measured/printed/outside.json"
RECORDED = "reports/measured/{}"


def size(text):
    figure, unit = text.split()
    return float(figure) * UNITS[unit]


def outside(row):
    return size(row["process"]) - size(row["allocated"]) - size(row["unallocated"])


def recordings():
    """A row for each recorded program, as for a message."""
    for file in sorted(HERE.glob("*/*.json.gz")):
        with gzip.open(file) as packed:
            source = json.load(packed)["source"]
        if source.get("process"):
            yield {"gpu": file.parent.name, "named": source["gpu"], "total": f"{source['total']} B", "process": f"{source['process']} B",
                   "allocated": f"{source['reserved_at_end']} B", "unallocated": "0 B", "ranks": 1 if file.name.count(".") == 2 else 2,
                   "recorded": True, "printed": str(file.relative_to(HERE))}


def rounded(size_in_bytes):
    """As whole MiB: the messages have two digits behind the point of GiB."""
    return round(size_in_bytes / (1 << 20)) << 20


def derive(rows):
    profiles = {file.stem: json.loads(file.read_text()) for file in sorted(PROFILES.glob("*.json"))}
    all_bytes = {name: profile["memory"]["bytes"]["value"] for name, profile in profiles.items()}
    alone = [row for row in rows if row["ranks"] == 1 and "other" not in row]
    several = [row for row in rows if row["ranks"] > 1 and "other" not in row and "recorded" not in row]

    def of(name, some):
        return [row for row in some if row.get("gpu") == name]

    def counted(name, some):
        """How many messages and recordings, and where they are."""
        recorded = sum("recorded" in row for row in of(name, some))
        messages = len(of(name, some)) - recorded
        return " and of ".join(([f"{messages} out-of-memory messages {PRINTED}"] if messages else []) +
                               ([f"{recorded} programs in {RECORDED.format(name)}"] if recorded else []))

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
                            f"smallest total of {counted(name, rows)}" if totals else
                            "no message of this GPU is known: nvidia-smi's bytes less the largest difference of other profiles"),
            "context_bytes": (context, f"largest of {counted(name, alone)}" if contexts else
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
    rows = [*json.loads((HERE / "printed" / "outside.json").read_text()), *recordings()]
    found = derive(rows)
    if arguments == ["--write"]:
        for name, figures in found.items():
            file = PROFILES / f"{name}.json"
            file.write_text(with_group(file.read_text(), figures))
        return 0
    if arguments == ["--check"]:
        wrong = [name for name, figures in found.items() if json.loads((PROFILES / f"{name}.json").read_text()).get("torch") != group(figures)]
        print("\n".join(f"{name}.json: the group torch is not what outside.py derives (outside.py --write)" for name in wrong) or
              f"{len(rows)} messages and recordings, {len(found)} profiles: as derived")
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
