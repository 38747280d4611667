"""README.md and docs/ as a reader meets them: each block of code is run as it stands, with its output, or says why it is not run, and which test has it.

A block of lines that begin with `$ ` is a terminal: each command runs in one folder for the document, and the lines up to the next command are its output,
stdout and stderr together. `...` stands for any text, or alone on its line for any lines. A comment above a block says what else it is:

    <!-- file: train.py -->            what is in that file from here on
    <!-- night: REASON -->             a terminal that runs at night, like all of its document then
    <!-- clone: REASON -->             a terminal in the clone itself, run at night over it: what it writes is gone afterwards
    <!-- part of FILE -->              lines of that file, as they are there
    <!-- not run: REASON (TEST) -->    nothing that could run here; TEST, a file of tests, has it
"""
import os
import re
import shutil
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


def run(document, folder, night, clone=()):
    """Runs the terminals of a document, and returns the number of commands. With `clone`, words that are put before each command, only terminals of the clone run."""
    environment, count = folder_of_a_reader(folder), 0
    for mark, _, text in blocks(document):
        if mark.startswith("file: "):
            (folder / mark.removeprefix("file: ")).write_text(text)
        if not text.startswith("$ ") or mark.startswith("night: ") > night or mark.startswith("clone: ") != bool(clone):
            continue
        for command, lines in commands(text):
            done = subprocess.run([*clone, "bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False,
                                  timeout=1800)
            seen = f"{document.name}: $ {command}\n{done.stdout}(exit code {done.returncode})"
            assert re.fullmatch(pattern(lines), done.stdout if done.stdout.endswith("\n") or not done.stdout else done.stdout + "\n"), \
                f"{seen}\nand the document has\n" + "\n".join(lines)
            assert not clone or done.returncode == 0, seen
            count += 1
    return count


# holds: README.md, The suite
# holds: README.md, Your script
@pytest.mark.parametrize("document", drawn([each for each in DOCUMENTS if any(text.startswith("$ ") for mark, _, text in blocks(each) if not mark.startswith(("night", "clone")))], 7),
                         ids=lambda path: path.name)
def test_documents(document, tmp_path):
    assert run(document, tmp_path, False) > 0


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if any(mark.startswith("night") for mark, _, _ in blocks(each))], ids=lambda path: path.name)
# night: fits and whole suites take minutes
def test_documents_at_night(document, tmp_path):
    assert run(document, tmp_path, True) > 0


# Over the clone lies a file system in memory, in a namespace of its own; .deps is as it is.
OVER = r"""mount --make-rprivate / 2>/dev/null
mount -t tmpfs over "$1" && mkdir "$1/deps" "$1/upper" "$1/work" && { [ ! -d "$2/.deps" ] || mount --bind "$2/.deps" "$1/deps"; } &&
mount -t overlay over -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$2" && { [ ! -d "$2/.deps" ] || mount --bind "$1/deps" "$2/.deps"; } && echo up && exec sleep 3600"""


@pytest.mark.skipif(os.geteuid() != 0 or any(shutil.which(tool) is None for tool in ("unshare", "nsenter")), reason="only root can mount a file system")
@pytest.mark.skipif(Path(TIDEMARK).parent != ROOT / "build" / "dev", reason="the document builds build/dev")
# night: compiles a scenario and links the command; runner_test compiles and runs the toy by day
def test_a_scenario_of_ones_own(tmp_path):
    """docs/new-scenario.md from its first command to a green run, and the table of scenarios that it leaves is the code's."""
    before = subprocess.run(["git", "-C", ROOT, "status", "--porcelain"], capture_output=True, text=True, check=False).stdout
    over, folder = tmp_path / "over", tmp_path / "reader"
    over.mkdir()
    folder.mkdir()
    with subprocess.Popen(["unshare", "-m", "--propagation", "unchanged", "sh", "-c", OVER, "sh", over, ROOT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as keeper:
        try:
            if keeper.stdout.readline() != "up\n":
                pytest.skip(f"no file system can be laid over another one: {keeper.stderr.read().strip()}")
            # Without --root the root would be that of the mount namespace, which is the machine's in a chroot too; --wd would be the clone beneath.
            # A shell would write that it does not find its folder, which is in the namespace that was left; env does not ask for it.
            clone = ["nsenter", f"--target={keeper.pid}", "--mount", "--root", "env", f"--chdir={ROOT}"]
            assert run(ROOT / "docs" / "new-scenario.md", folder, True, clone) > 0
            table = subprocess.run([*clone, "build/dev/tidemark", "list", "--markdown"], capture_output=True, text=True, check=True).stdout
            assert "| `mine` |" in table
            assert table in subprocess.run([*clone, "cat", "docs/scenarios.md"], capture_output=True, text=True, check=True).stdout
        finally:
            keeper.kill()
    assert subprocess.run(["git", "-C", ROOT, "status", "--porcelain"], capture_output=True, text=True, check=False).stdout == before, "the clone is as it was"


def faults_of_blocks(documents):
    """Blocks of no kind: each is a terminal, a file, Python that python_documents runs, lines of a file, or has a reason with a test that is there."""
    wrong = []
    for document in documents:
        for mark, language, text in blocks(document):
            name = f"{document.name}: {text.splitlines()[0]}"
            if mark.startswith("part of "):
                whole = (ROOT / mark.removeprefix("part of ")).read_text()
                wrong += [f"{name}: '{line}' is not in {mark[8:]}" for line in text.splitlines() if line.strip() and line.strip() not in whole]
            elif mark.startswith("not run: "):
                test = re.search(r"\((\S+_test\.(?:py|cpp)|\S+/test_\w+\.py)\)$", mark)
                if not test or not (ROOT / test[1]).exists():
                    wrong.append(f"{name}: names no test that is there: {mark}")
            elif not (text.startswith("$ ") or language == "python" or mark.startswith("file: ")):
                wrong.append(f"{name}: is neither a terminal nor has a comment that says what it is")
    return wrong


def flags_of(command):
    """The flags that a command's help names."""
    done = subprocess.run([TIDEMARK, *command.split(), "--help"], capture_output=True, text=True, check=False)
    return set(re.findall(r"--[a-z][\w-]*", done.stdout)) if done.returncode == 0 else None


def test_commands_in_sentences_are_there():
    """Every `tidemark COMMAND --flag` in a sentence is a command with these flags, and every path is one of the tree."""
    wrong, helps = [], {}
    for document in DOCUMENTS:
        text = BLOCK.sub("", document.read_text())
        for code in re.findall(r"`([^`\n]+)`", text):
            words = code.split(" -- ")[0].split()
            if words[:1] == ["tidemark"] and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
                flags = helps.setdefault(words[1], flags_of(words[1]))
                if flags is None:
                    wrong.append(f"{document.name}: {code}: there is no such command")
                    continue
                wrong += [f"{document.name}: {code}: no flag {word}" for word in words[2:] if word.startswith("--") and word.split("=")[0] not in flags]
            elif re.fullmatch(r"(?:\.\./|\./)?(?:ci|docs|cases|harness|python|reports|reference|templates)/[\w./-]+", code):
                if not (document.parent / code).exists() and not (ROOT / code).exists():
                    wrong.append(f"{document.name}: there is no {code}")
    assert not wrong, "\n".join(wrong)


def faults_of_captions(documents):
    """A figure with a unit below a picture is one that a terminal of the document shows, and each of these is run."""
    wrong = []
    for document in documents:
        shown = " ".join(text for _, _, text in blocks(document) if text.startswith("$ "))
        for picture, caption in re.findall(r"^!\[.*?\]\((.+?)\)\n\n\*(.+?)\*$", document.read_text(), re.M | re.S):
            if not (document.parent / picture).exists():
                wrong.append(f"{document.name}: there is no {picture}")
            wrong += [f"{document.name}: {picture}: no run shows {figure}" for figure in re.findall(r"\d[\d,.]*\d (?:bytes|[KMGT]iB)", caption) if figure.split()[0] not in shown]
        if re.search(r"^!\[", document.read_text(), re.M) and not re.search(r"^!\[.*?\]\(.+?\)\n\n\*", document.read_text(), re.M):
            wrong.append(f"{document.name}: a picture has no caption")
    return wrong


def test_every_block_is_accounted_for():
    assert not faults_of_blocks(DOCUMENTS), "\n".join(faults_of_blocks(DOCUMENTS))


def test_captions_have_the_figures_of_runs():
    assert not faults_of_captions(DOCUMENTS), "\n".join(faults_of_captions(DOCUMENTS))


def test_a_wrong_document_fails(tmp_path):
    """The tests above see what is wrong: an output, a block of no kind, a test that is not there, a line that the file lacks, a figure that no run shows."""
    document, folder = tmp_path / "wrong.md", tmp_path / "folder"
    folder.mkdir()
    document.write_text("# Wrong\n\n    $ echo one; echo two\n    one\n    three\n")
    with pytest.raises(AssertionError, match="and the document has"):
        run(document, folder, False)
    assert re.fullmatch(pattern(["a ... c", "...", "z"]), "a b c\nx\ny\nz\n") and not re.fullmatch(pattern(["a"]), "a\nb\n")
    for mark in ("", "<!-- not run: it cannot (nowhere_test.py) -->\n", "<!-- part of README.md -->\n"):
        document.write_text(f"# Wrong\n\n{mark}    tidemark frobnicate\n")
        assert len(faults_of_blocks([document])) == 1, mark
    (tmp_path / "picture.png").write_bytes(b"")
    text = "# Wrong\n\n![A picture](picture.png)\n\n*It has 6.8 GiB.*\n\n    $ echo 6.8 GiB\n    6.8 GiB\n"
    document.write_text(text)
    assert not faults_of_captions([document])
    for wrong in (text.replace("has 6.8", "has 6.9"), text.replace("picture.png", "none.png"), text.replace("*It has 6.8 GiB.*\n\n", "")):
        document.write_text(wrong)
        assert len(faults_of_captions([document])) == 1, wrong
