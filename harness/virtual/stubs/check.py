#!/usr/bin/env python3
"""Fails, naming them, when PyTorch's libraries need functions that no library of the virtual platform exports: those that they
link with, and those of the driver and of NVML that they fetch by name (c10/cuda/driver_api.h, which no linker sees).

usage: check.py TORCH_LIB TABLE VIRTUAL DRIVER_API_H
"""
import os
import pathlib
import re
import sys

import shipped


def main():
    torch_lib, table_path, virtual, header = sys.argv[1:]
    functions, problems = shipped.wanted(torch_lib, shipped.load_table(table_path))
    for soname, wants in sorted(functions.items()):
        path = os.path.join(virtual, soname)
        if not os.path.exists(path):
            problems.append(f"the library {soname}")
            continue
        exports = shipped.symbols(path, "--defined-only")
        names = {name for name, _ in exports}
        problems += [f"{name} of {soname}" + (f" (version {version})" if name in names else "")
                     for name, version in sorted(wants)
                     if (name, version) not in exports and not (version == "" and name in names)]
    for soname, begin, versions in (("libcuda.so.1", "cu[A-Z]", ("", "_v2", "_v3")), ("nvml/libnvidia-ml.so.1", "nvml[A-Z]", ("",))):
        fetched = sorted(set(re.findall(rf"\b_\(({begin}\w+)", pathlib.Path(header).read_text())))
        if not fetched:
            sys.exit(f"error: no {begin} function found in {header}: has its form changed?")
        names = {name for name, _ in shipped.symbols(os.path.join(virtual, soname), "--defined-only")}
        problems += [f"{name} of {soname}, which they fetch by name" for name in fetched if not names & {name + v for v in versions}]
    if problems:
        sys.exit("error: PyTorch's libraries need, and the virtual platform lacks:\n  " + "\n  ".join(problems))


main()
