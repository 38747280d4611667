#!/usr/bin/env python3
"""Fails, naming them, when PyTorch fetches functions by name (c10/cuda/driver_api.h, which no linker sees) that our libcuda or
libnvidia-ml lacks. usage: check_entry_points.py DRIVER_API_H LIBCUDA LIBNVML"""
import pathlib
import re
import subprocess
import sys

header, *libraries = sys.argv[1:]
for library, begin, versions in zip(libraries, ("cu[A-Z]", "nvml[A-Z]"), (("", "_v2", "_v3"), ("",))):
    wanted = set(re.findall(rf"\b_\(({begin}\w+)", pathlib.Path(header).read_text()))
    nm = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in nm.splitlines()}
    missing = sorted(f for f in wanted if not exported & {f + v for v in versions})
    if not wanted:
        sys.exit(f"error: no {begin} function found in {header}: has its form changed?")
    if missing:
        sys.exit(f"error: PyTorch fetches functions that {pathlib.Path(library).name} lacks: " + ", ".join(missing))
