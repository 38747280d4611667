"""ci/upstream without released code: rows that need the user's sources are not run, by name, and the exit code is 77; sources of a commit are taken out of a
git repository; memory tests of a checkout are counted, each by its outcome, on a stand-in for tidemark that runs the program alone."""
import subprocess
import sys


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


def test_rows(tmp_path, upstream, monkeypatch):
    monkeypatch.delenv("TIDEMARK_NANOTRON", raising=False)
    code, said = upstream("tp_buffer_reuse", "--with", sys.executable, "--rows", "the change, small, 2 ranks")
    assert code == 77 and "Not run:" in said and "the change, small, 2 ranks: set TIDEMARK_NANOTRON to a git repository" in said, f"not run: {code} {said}"

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
    code, said = upstream("tp_buffer_reuse", "--with", sys.executable, "--rows", "the change, small, 2 ranks")
    assert code == 3 and "no environment" in said, f"a repository without the commit: {code} {said}"


def test_checkout(tmp_path, upstream):
    """The folder has the name of this test, in which pytest's -k would find a word such as memory."""
    checkout = tmp_path / "fairscale"
    tests = checkout / "tests/nn/data_parallel/test_fsdp_memory.py"
    tests.parent.mkdir(parents=True)
    right = "import pytest\n\ndef test_right():\n    pass\n\ndef test_skipped():\n    pytest.skip('not today')\n"
    tests.write_text(right)
    code, said = upstream("--tests", checkout, "--with", sys.executable)
    assert code == 0 and "| tests/nn/data_parallel/test_fsdp_memory.py | 1 | 0 | 0 | 1 |" in said and "not today" in said, f"right: {code} {said}"
    assert "| test/test_cuda.py | not found | | | |" in said, f"a file that is not there: {said}"
    tests.write_text(right + "\ndef test_wrong():\n    raise ValueError('off by one')\n")
    code, said = upstream("--tests", checkout, "--with", sys.executable)
    assert code == 1 and "| 1 | 1 | 0 | 1 |" in said and "test_wrong" in said and "off by one" in said, f"wrong: {code} {said}"
    for name, text in (("test/test_cuda.py", "def test_memory(): pass\ndef test_other(): pass\n"), ("src/accelerate/test_utils/scripts/test_ops.py", "raise ValueError('ranks differ')\n"),
                       ("src/accelerate/test_utils/scripts/test_sync.py", "")):
        checkout.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        checkout.joinpath(name).write_text(text)
    code, said = upstream("--tests", checkout, "--with", sys.executable)
    assert said.count("| test/test_cuda.py") == said.count("| 1 | 0 | 0 | 0 |") - 1 == 2, f"a part of a file, with two settings: {said}"
    assert "| src/accelerate/test_utils/scripts/test_ops.py | 0 | 1 | 0 | 0 |" in said and "test_ops.py::(program): ValueError: ranks differ" in said, f"programs: {said}"
    tests.write_text("import nothing_of_this_name\n")
    code, said = upstream("--tests", checkout, "--with", sys.executable)
    assert code == 1 and "nothing_of_this_name" in said, f"cannot be imported: {code} {said}"
    code, said = upstream("--tests", tmp_path, "--with", sys.executable)
    assert code == 2 and "no test file is in" in said, f"no test file: {code} {said}"
