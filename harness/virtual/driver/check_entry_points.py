#!/usr/bin/env python3
"""Fails, naming them, when PyTorch fetches driver functions by name (c10/cuda/driver_api.h, which no linker sees) that our
libcuda lacks. usage: check_entry_points.py DRIVER_API_H LIBCUDA"""
import pathlib
import re
import subprocess
import sys

header, library = sys.argv[1:]
wanted = set(re.findall(r"\b_\((cu[A-Z]\w+)", pathlib.Path(header).read_text()))
nm = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
exported = {line.split()[-1].split("@")[0] for line in nm.splitlines()}
missing = sorted(f for f in wanted if not exported & {f, f + "_v2", f + "_v3"})
if not wanted:
    sys.exit(f"error: no driver function found in {header}: has its form changed?")
if missing:
    sys.exit("error: PyTorch fetches driver functions that libcuda.so.1 lacks: " + ", ".join(missing))
