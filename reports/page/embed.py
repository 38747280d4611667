#!/usr/bin/env python3
"""Puts the page's modules together into one file, as a C++ string.

embed.py OUT.cpp index.html style.css a.js b.js ... main.js
Each module comes after those that it imports from and becomes a function that returns what it exports, because a
module inside a page has no address that another could import.
"""
import re
import sys
from pathlib import Path

IMPORT = re.compile(r"^import (\{[^}]*\}) from '\./(\w+)\.js';$", re.M)
EXPORT = re.compile(r"^export ((?:async )?function|const|let|class) (\w+)", re.M)


def module(path: Path, before: list[str]) -> str:
    text = path.read_text(encoding="utf-8")
    for _, name in IMPORT.findall(text):
        if name not in before:
            sys.exit(f"{path}: imports {name}.js, which does not come before it: reorder the list in CMakeLists.txt")
    exported = ", ".join(name for _, name in EXPORT.findall(text))
    text = EXPORT.sub(r"\1 \2", IMPORT.sub(r"const \1 = \2_js;", text))
    if left := re.search(r"^(import|export)\b.*", text, re.M):
        sys.exit(f"{path}: embed.py does not know this form: {left[0]}")
    return f"const {path.stem}_js = (() => {{\n{text}return {{ {exported} }};\n}})();\n"


def main() -> None:
    out, index, style, *scripts = map(Path, sys.argv[1:])
    code = [module(path, [script.stem for script in scripts[:i]]) for i, path in enumerate(scripts)]
    page = index.read_text(encoding="utf-8")
    for hole, text in (("/*STYLE*/", style.read_text(encoding="utf-8")), ("/*SCRIPT*/", "".join(code))):
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
