"""What a command may not write: beyond a limit of files, in the place of what is no file, in a folder that is gone."""
import os
import pathlib
import random
import socket
import stat
import subprocess

import pytest
from command import BINARY, environment
from hostile_test import CORPUS, SEED, bounded, is_line, spent


@pytest.fixture
def drawn():
    print("TIDEMARK_TEST_SEED", SEED)
    return random.Random(SEED)


def results(folder):
    """Commands that write files, each with what it needs in a folder of its own."""
    for name, words in (("report", "report ."), ("page", "compare losses a.csv a.csv --format html --out o --force"), ("perfetto", "snapshot convert a.pickle --to perfetto --out o --force")):
        place = folder / name
        place.mkdir()
        (place / "report.json").write_bytes((CORPUS / "report/program.json").read_bytes())
        (place / "a.csv").write_bytes((CORPUS / "losses/lines.csv").read_bytes())
        (place / "a.pickle").write_bytes((CORPUS / "snapshot/of.pickle").read_bytes())
        os.chdir(place)
        yield place, words.split()


def test_a_limit_of_files(folder, drawn):
    """A file that may not grow any more (ulimit -f) is an error of one line, and no signal; no draft is left."""
    for place, words in results(folder):
        before = sorted(place.iterdir())
        limit = drawn.randint(1, 300)
        done = subprocess.run(["prlimit", f"--fsize={limit}", BINARY, *words], capture_output=True, env=environment(), check=False)
        assert done.returncode == 2 and "File too large" in is_line(done.stderr), (words, limit, done)
        assert sorted(place.iterdir()) == before
    with open("shown", "wb") as shown:
        done = subprocess.run(["prlimit", "--fsize=100", BINARY, "--help"], stdout=shown, stderr=subprocess.PIPE, env=environment(), check=False)
    assert done.returncode == 3 and "File too large" in is_line(done.stderr), done


def test_what_is_no_file_is_not_replaced(folder):
    """A device or a pipe that --out names stays what it is; a pipe or a socket in the place of a report's file, or of its draft, goes."""
    for place, words in results(folder):
        os.mkfifo("pipe")
        taken = ["pipe"]
        if os.geteuid() == 0:
            os.mknod("null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            taken.append("null")
        if "--out" in words:
            for name in taken:
                before = os.lstat(name)
                bounded(*[name if word == "o" else word for word in words], codes=(2,))
                assert os.lstat(name).st_ino == before.st_ino and os.lstat(name).st_mode == before.st_mode
        else:
            for name in ("summary.md", "report.html.partial"):
                os.mkfifo(name)
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind("junit.xml.partial")
            bounded(*words, codes=(0,))
            assert not list(place.glob("*.partial")) and (place / "summary.md").is_file()
            if os.geteuid() == 0:
                os.replace("null", "summary.md")
                assert b"summary.md: is a device" in bounded(*words, codes=(2,))[2]
                assert stat.S_ISCHR(os.lstat("summary.md").st_mode)


def test_a_folder_that_is_gone(folder):
    """A command whose working directory was removed says so."""
    for words in ("exec -- /bin/true", "run ddp_bucket_view --size smoke", "report ."):
        gone = folder / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()
        code, _, err, _, _ = spent(*words.split())
        assert code in (2, 3) and is_line(err).startswith("error: the working directory" if not words.startswith("report") else "error: "), err
        os.chdir(folder)
