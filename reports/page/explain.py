#!/usr/bin/env python3
"""Puts the page that explains snapshots in a browser into one file: explain.py explain.html MODULE.js OUT.html. MODULE.js is Emscripten's, with the
WebAssembly in it."""
import json
import sys
from pathlib import Path

MOST = 256  # MiB of files: what 4 GiB of memory, the most that WebAssembly has, are enough for (ci/README.md)


def main() -> None:
    page, module, out = map(Path, sys.argv[1:])
    code = json.dumps(module.read_text(encoding="utf-8")).replace("<", "\\u003c")
    text = page.read_text(encoding="utf-8").replace("@MOST@", str(MOST))
    if text.count("@MODULE@") != 1:
        sys.exit(f"{page}: needs @MODULE@ exactly once")
    out.write_text(text.replace("@MODULE@", code), encoding="utf-8")


if __name__ == "__main__":
    main()
