#!/usr/bin/env python3
"""Writes SONAME.cpp and SONAME.map for every library of the table that is not modelled.

usage: make_stubs.py TORCH_LIB TABLE OVERRIDES OUT
OVERRIDES/<library>.cpp, where there is one, is included, and the functions it defines are not generated.
"""
import os
import re
import sys

import shipped

PRELUDE = '''// Generated from the undefined symbols of PyTorch's libraries.
#include "harness/virtual/stubs/refuse.h"
constexpr const char* library = "{soname}";
constexpr int not_supported = {status};  // {name}
'''


def overridden(path):
    """Functions that an override file defines: lines that start with a STUB(...) definition."""
    if not os.path.exists(path):
        return set()
    with open(path) as file:
        return set(re.findall(r"^STUB\([^,()]+, (\w+)\)", file.read(), re.M))


def version_script(functions):
    groups = {}
    for name, version in functions:
        groups.setdefault(version, set()).add(name)
    # A function without version symbol cannot share a script with versioned ones: it joins every library's own node.
    plain = groups.pop("", set())
    if not groups:
        return "{ %slocal: *; };\n" % ("global: %s; " % "; ".join(sorted(plain)) if plain else "")
    first = sorted(groups)[0]
    groups[first] |= plain
    return "".join("%s { global: %s;%s };\n" % (v, "; ".join(sorted(groups[v])), " local: *;" if v == first else "")
                   for v in sorted(groups))


def write(path, text):
    """Leaves an unchanged file alone, so that nothing is compiled again."""
    if not os.path.exists(path) or open(path).read() != text:
        with open(path, "w") as file:
            file.write(text)


def write_stub(out, soname, entry, wants, overrides=None):
    """Writes out/SONAME.cpp and .map, of the functions `wants` and of those of the overrides; gives the path of the first."""
    override = os.path.join(overrides, soname.split(".")[0] + ".cpp") if overrides else ""
    by_hand = overridden(override)
    text = PRELUDE.format(soname=soname, **entry)
    if os.path.exists(override):
        text += f'#include "{os.path.abspath(override)}"\n'
    by_macro, computed = (entry.get(key, "") if override and os.path.exists(override) else "" for key in ("by_hand", "computed"))
    for name in sorted({n for n, _ in wants} - by_hand):
        if not re.fullmatch(by_macro, name):
            text += f"{'COMPUTED' if re.fullmatch(computed, name) else 'REFUSED'}({name})\n"
    path = os.path.join(out, soname + ".cpp")
    write(path, text)
    extra = {(name, "") for name in by_hand} - {(name, "") for name, _ in wants}
    write(os.path.join(out, soname + ".map"), version_script(wants | extra))
    return path


def main():
    torch_lib, table_path, overrides, out = sys.argv[1:]
    table = shipped.load_table(table_path)
    functions, homeless = shipped.wanted(torch_lib, table)
    if homeless:
        sys.exit("error: not in %s: %s" % (table_path, ", ".join(homeless)))
    os.makedirs(out, exist_ok=True)
    for soname, entry in table.items():
        if "modelled" not in entry:
            write_stub(out, soname, entry, functions.get(soname, set()), overrides)


if __name__ == "__main__":
    main()
