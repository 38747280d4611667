#!/usr/bin/env python3
"""Puts the page's modules together into one file, as a C++ string.

embed.py OUT.cpp index.html style.css a.js b.js ... main.js
Each module comes after those that it imports from; all end up in one module scope, so imports and the word
"export" go, and a name may be declared once only (the browser refuses the page otherwise, and its test fails).
"""
import re
import sys
from pathlib import Path


def module(path: Path, before: set[str]) -> str:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"^import .*? from '\./([\w.]+)';$", text, re.M | re.S):
        if name not in before:
            sys.exit(f"{path}: imports {name}, which does not come before it: reorder the list in CMakeLists.txt")
    text = re.sub(r"^import [^;]*;\n", "", text, flags=re.M)
    return re.sub(r"^export ", "", text, flags=re.M)


def main() -> None:
    out, index, style, *scripts = map(Path, sys.argv[1:])
    seen: set[str] = set()
    code = []
    for path in scripts:
        code.append(module(path, seen))
        seen.add(path.name)
    page = index.read_text(encoding="utf-8")
    for hole, text in (("/*STYLE*/", style.read_text(encoding="utf-8")), ("/*SCRIPT*/", "\n".join(code))):
        if page.count(hole) != 1:
            sys.exit(f"{index}: needs {hole} exactly once")
        page = page.replace(hole, text)
    if ')page"' in page:
        sys.exit('the page\'s sources hold )page", which ends the C++ string')
    out.write_text(
        "#include <string_view>\nnamespace tidemark {\nextern const std::string_view kPage;\n"
        f'const std::string_view kPage = R"page({page})page";\n}}  // namespace tidemark\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
