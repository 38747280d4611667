"""README.md and docs/ as a reader meets them: each block of code is run as it stands, with its output, or says why it is not run, and which test has it.

A block of lines that begin with `$ ` is a terminal: each command runs in one folder for the document, and the lines up to the next command are its output,
stdout and stderr together. `...` stands for any text, or alone on its line for any lines. A comment above a block says what else it is:

    <!-- file: train.py -->            what is in that file from here on
    <!-- night: REASON -->             a terminal that runs at night, like all of its document then
    <!-- part of FILE -->              lines of that file, as they are there
    <!-- not run: REASON (TEST) -->    nothing that could run here; TEST, a file of tests, has it
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from testing.said import ROOT, SITE, TIDEMARK, drawn, exec_server

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]+) -->\n+)?(?:^```(?P<language>\w*)\n(?P<fenced>.*?)^```$|(?:(?<=\n\n)|(?<=-->\n))(?P<indented>(?:^    [^\n]*\n|^\n(?=    ))*^    [^\n]*\n))", re.M | re.S)


def blocks(document):
    """(comment above it, language, text) of each block."""
    for match in BLOCK.finditer(document.read_text()):
        text = match["fenced"] if match["fenced"] is not None else re.sub(r"^    ", "", match["indented"], flags=re.M)
        yield match["mark"] or "", match["language"] or "", text


def pattern(lines):
    """What matches the output of a command."""
    out = ""
    for line in lines:
        out += "(?:.*\n)*?" if line.strip() == "..." else ".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ ]*\n"
    return out


def commands(text):
    """(command, lines of its output) of a terminal; a line that ends with a backslash goes on."""
    found, lines = [], iter(text.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            found[-1][1].append(line)
            continue
        command = line[2:]
        while command.endswith("\\"):
            command = command[:-1] + next(lines).strip()
        found.append((command, []))
    return found


def folder_of_a_reader(folder):
    """A clone's folders, and the commands of README's installation."""
    for name in ("harness", "python", "reports", "cases", "ci"):
        (folder / name).symlink_to(ROOT / name)
    tools = folder / ".tools"
    tools.mkdir()
    own = {"tidemark": f'exec {TIDEMARK} "$@"', "pytest": f'exec {sys.executable} -m pytest -p tidemark.plugin -p no:cacheprovider "$@"',
           "torchrun": f'exec {sys.executable} -m torch.distributed.run "$@"', "python": f'exec {sys.executable} "$@"'}
    for name, line in own.items():
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    packages = [ROOT / "python", Path(os.environ.get("TIDEMARK_DEPS", ROOT / ".deps")) / "pytest", SITE]
    environment = exec_server.of_all(os.environ) | {"PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": ":".join(map(str, packages)), "TIDEMARK": TIDEMARK,
                                                    "HOME": str(folder), "COLUMNS": "200"}
    return {name: value for name, value in environment.items() if not name.startswith("GIT") and name not in ("TIDEMARK_BIN",)}


def run(document, folder, night):
    """Runs the terminals of a document, and returns the number of commands."""
    environment, count = folder_of_a_reader(folder), 0
    for mark, _, text in blocks(document):
        if mark.startswith("file: "):
            (folder / mark.removeprefix("file: ")).write_text(text)
        if not text.startswith("$ ") or mark.startswith("night: ") > night:
            continue
        for command, lines in commands(text):
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False,
                                  timeout=1800)
            seen = f"{document.name}: $ {command}\n{done.stdout}(exit code {done.returncode})"
            assert re.fullmatch(pattern(lines), done.stdout if done.stdout.endswith("\n") or not done.stdout else done.stdout + "\n"), \
                f"{seen}\nand the document has\n" + "\n".join(lines)
            count += 1
    return count


# holds: README.md, The suite
# holds: README.md, Your script
@pytest.mark.parametrize("document", drawn([each for each in DOCUMENTS if any(text.startswith("$ ") for mark, _, text in blocks(each) if not mark.startswith("night"))], 3),
                         ids=lambda path: path.name)
def test_documents(document, tmp_path):
    assert run(document, tmp_path, False) > 0


NIGHTLY = [each for each in DOCUMENTS if any(mark.startswith("night") for mark, _, _ in blocks(each))]


@pytest.mark.parametrize("document", NIGHTLY, ids=[each.name for each in NIGHTLY])
# night: fits and whole suites, which take minutes
def test_documents_at_night(document, tmp_path):
    assert run(document, tmp_path, True) > 0
