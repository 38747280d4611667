#!/usr/bin/env python3
"""Makes the page's list of kinds of memory from that of the record: kinds.py memory_kind.h kinds_of_memory.js, and with --check style.css STAMP holds both files
against it: that the list is the header's, and that each kind has a colour of its own, light and dark."""
import json
import re
import sys
from pathlib import Path


def slug(kind: str) -> str:
    return "kind-" + re.sub(r"[^a-z]+", "-", kind.lower())


def main() -> None:
    header, out, *check = sys.argv[1:]
    words = re.search(r"words\(MemoryKind\) \{\s*return std::array\{(.*?)\};", Path(header).read_text(encoding="utf-8"), re.DOTALL)
    kinds = re.findall(r'"([^"]*)"', words[1]) if words else []
    if len(kinds) < 2:
        sys.exit(f"{header}: has no list of words of MemoryKind")
    text = f"// Made of harness/record/memory_kind.h by kinds.py.\nexport const KINDS = {json.dumps(kinds, indent=2)};\n".replace('"', "'")
    if not check:
        Path(out).write_text(text, encoding="utf-8")
        return
    if Path(out).read_text(encoding="utf-8") != text:
        sys.exit(f"{out}: is not made of {header} as it is now: run reports/page/kinds.py {header} {out}")
    _, style, stamp = check
    rules = Path(style).read_text(encoding="utf-8")
    for kind in kinds:
        colours = re.findall(rf"--{slug(kind)}: (#[0-9a-f]{{6}});", rules)
        if len(colours) != 2 or f".{slug(kind)} {{" not in rules:
            sys.exit(f"{style}: needs --{slug(kind)} twice, light and dark, and the class .{slug(kind)}, for the kind '{kind}'")
        for colour in colours:
            if len(re.findall(rf"--kind-[a-z-]+: {colour};", rules)) != 1:
                sys.exit(f"{style}: the colour {colour} of the kind '{kind}' is that of another one too")
    Path(stamp).touch()


if __name__ == "__main__":
    main()
