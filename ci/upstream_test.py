"""ci/upstream without released code: rows that need the user's sources are not run, by name, and the exit code is 77; sources of a commit are taken out of a
git repository; memory tests of a checkout are counted, each by its outcome, on a stand-in for tidemark that runs the program alone."""
import subprocess
import sys


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


# holds: cases/README.md, Against released code
def test_rows(tmp_path, upstream, monkeypatch):
    monkeypatch.delenv("TIDEMARK_NANOTRON", raising=False)
    code, output = upstream("tp_buffer_reuse", "--with", sys.executable, "--rows", "the change, small, 2 ranks")
    assert code == 77 and "Not run:" in output and "the change, small, 2 ranks: set TIDEMARK_NANOTRON to a git repository" in output, f"not run: {code} {output}"

    repository = tmp_path / "nanotron"
    repository.joinpath("src").mkdir(parents=True)
    for text in ("1", "2"):
        repository.joinpath("src/version").write_text(text)
        git(tmp_path, "init", "-q", repository)
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", text)
    git(repository, "tag", "newest")
    git(repository, "tag", "first", "HEAD~1")
    monkeypatch.setenv("TIDEMARK_NANOTRON", str(repository))
    monkeypatch.setenv("TIDEMARK_WHEELS", str(tmp_path / "wheels"))
    import environments

    for tag, text in (("newest", "2"), ("first", "1")):
        assert environments.beside(f"nanotron@{tag}").joinpath("version").read_text() == text, f"sources of {tag}"
    code, output = upstream("tp_buffer_reuse", "--with", sys.executable, "--rows", "the change, small, 2 ranks")
    assert code == 3 and "no environment" in output, f"a repository without the commit: {code} {output}"


# night: counts the outcomes of a checkout's tests, each in a Python of its own with torch
def test_checkout(tmp_path, upstream):
    """The folder has the name of this test, in which pytest's -k would find a word such as memory."""
    checkout = tmp_path / "fairscale"
    tests = checkout / "tests/nn/data_parallel/test_fsdp_memory.py"
    tests.parent.mkdir(parents=True)
    right = "import pytest\n\ndef test_right():\n    pass\n\ndef test_skipped():\n    pytest.skip('not today')\n"
    tests.write_text(right)
    code, output = upstream("--tests", checkout, "--with", sys.executable)
    assert code == 0 and "| tests/nn/data_parallel/test_fsdp_memory.py | 1 | 0 | 0 | 1 |" in output and "not today" in output, f"right: {code} {output}"
    assert "| test/test_cuda.py | not found | | | |" in output, f"a file that is not there: {output}"
    tests.write_text(right + "\ndef test_wrong():\n    raise ValueError('off by one')\n")
    code, output = upstream("--tests", checkout, "--with", sys.executable)
    assert code == 1 and "| 1 | 1 | 0 | 1 |" in output and "test_wrong" in output and "off by one" in output, f"wrong: {code} {output}"
    for name, text in (("test/test_cuda.py", "def test_memory(): pass\ndef test_other(): pass\n"), ("src/accelerate/test_utils/scripts/test_ops.py", "raise ValueError('ranks differ')\n"),
                       ("src/accelerate/test_utils/scripts/test_sync.py", "")):
        checkout.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        checkout.joinpath(name).write_text(text)
    code, output = upstream("--tests", checkout, "--with", sys.executable)
    assert output.count("| test/test_cuda.py") == output.count("| 1 | 0 | 0 | 0 |") - 1 == 2, f"a part of a file, with two settings: {output}"
    assert "| src/accelerate/test_utils/scripts/test_ops.py | 0 | 1 | 0 | 0 |" in output and "test_ops.py::(program): ValueError: ranks differ" in output, f"programs: {output}"
    tests.write_text("import nothing_of_this_name\n")
    code, output = upstream("--tests", checkout, "--with", sys.executable)
    assert code == 1 and "nothing_of_this_name" in output, f"cannot be imported: {code} {output}"
    code, output = upstream("--tests", tmp_path, "--with", sys.executable)
    assert code == 2 and "no test file is in" in output, f"no test file: {code} {output}"
