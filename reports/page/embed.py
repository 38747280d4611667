#!/usr/bin/env python3
"""Puts the page together as a C++ string: embed.py OUT.cpp index.html style.css script.js (bundled). The page runs this
script and no other: its hash stands in the page's security policy."""
import base64
import hashlib
import sys
from pathlib import Path


def main() -> None:
    out, index, style, script = map(Path, sys.argv[1:])
    page = index.read_text(encoding="utf-8")
    code = script.read_text(encoding="utf-8")
    if "</script" in code or "<!--" in code:
        sys.exit(f"{script}: holds </script or <!--, which would end the script inside a page")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    for hole, text in (("@HASH@", f"sha256-{digest}"), ("/*STYLE*/", style.read_text(encoding="utf-8")), ("/*SCRIPT*/", code)):
        if page.count(hole) != 1:
            sys.exit(f"{index}: needs {hole} exactly once")
        page = page.replace(hole, text)
    if ')page"' in page:
        sys.exit('the page\'s sources hold )page", which ends the C++ string')
    out.write_text(
        '#include <string_view>\n#pragma GCC diagnostic ignored "-Woverlength-strings"\n'
        "namespace tidemark {\nextern const std::string_view kPage;\n"
        f'const std::string_view kPage = R"page({page})page";\n}}  // namespace tidemark\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
