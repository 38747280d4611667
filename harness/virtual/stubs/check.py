#!/usr/bin/env python3
"""Fails, naming them, when PyTorch's libraries need functions that no library of the virtual platform exports.

usage: check.py TORCH_LIB TABLE VIRTUAL
"""
import os
import sys

import shipped


def main():
    torch_lib, table_path, virtual = sys.argv[1:]
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
    if problems:
        sys.exit("error: PyTorch's libraries need, and the virtual platform lacks:\n  " + "\n  ".join(problems))


main()
