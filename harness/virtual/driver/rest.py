#!/usr/bin/env python3
"""Writes the functions of an NVIDIA header that are not written by hand: each says its name and answers
"not supported" (801 in the runtime as in the driver). usage: rest.py LIBRARY HEADER OUTPUT SOURCE..."""
import pathlib
import re
import sys


def declared_in(library, header):
    """(names that the header declares, {name: the name that a macro gives it})."""
    name = r"(cuda[A-Z]\w+)" if library == "libcudart" else r"(cu[A-Z]\w+)"
    text = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(), flags=re.S)
    if library == "libcudart":
        return set(re.findall(r"cudaError_t\s+CUDARTAPI(?:_CDECL)?\s+" + name + r"\s*\(", text)), {}
    declared = set(re.findall(r"CUresult\s+CUDAAPI\s+" + name + r"\s*\(", text))
    renamed = dict(re.findall(r"#define\s+" + name + r"\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?\s", text))
    return declared | {new for new in renamed.values() if re.fullmatch(name, new)}, renamed


def main():
    library, header, output, *sources = sys.argv[1:]
    declared, renamed = declared_in(library, header)
    code = "\n".join(pathlib.Path(s).read_text() for s in sources)
    written = set(re.findall(r"\b(cu(?:da)?[A-Z]\w*)\s*\(", code))
    written |= {renamed[f] for f in written if f in renamed}  # cuda.h makes cuMemAlloc cuMemAlloc_v2
    lines = [
        "// Generated: functions that are not modelled.",
        '#include "harness/virtual/device/device.h"',
        f'static int refuse(const char* name) {{ tidemark::device::not_supported("{library}", name); return 801; }}',
        'extern "C" {',
    ]
    lines += [f'int {f}() {{ return refuse("{f}"); }}' for f in sorted(declared - written)]
    pathlib.Path(output).write_text("\n".join(lines + ["}", ""]))


if __name__ == "__main__":
    main()
