"""tidemark.run, and the cell magic."""
import shlex

import pytest

import tidemark
from test_outcomes import exec_server

PROGRAM = "import sys, torch\nkept = torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\nprint('ran', *sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n"


@pytest.fixture(autouse=True)
def served(monkeypatch):
    exec_server.serve_here(monkeypatch)


@pytest.fixture
def program(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path / "train.py"


# holds: python/README.md, A program, from Python and in a notebook
def test_run(program, tmp_path):
    done = tidemark.run([program, "0"], gpu="l4-24g", schedule=["instant", "lagging"], report=tmp_path / "report")
    assert done.exit_code == 0 and "ran 0" in done.output and (tmp_path / "report" / "report.html").exists()
    assert [(row["schedule"], row["requested"], row["reserved"]) for row in done.peaks] == [("instant", 3 << 20, 20 << 20), ("lagging", 3 << 20, 20 << 20)], done.peaks
    assert done.peak == 20 << 20
    assert [(row["bytes"], row["count"], row["line"]) for row in done.alive] == [(3 << 20, 1, "<module> train.py:2")] * 2, done.alive
    assert "3,145,728 bytes allocated" in repr(done)
    page = done._repr_html_()
    assert page.startswith("<iframe") and "train.py" in page and page.count("<iframe") == page.count("</iframe>") == 1


def test_a_program_that_fails(program):
    done = tidemark.run([program, "7"])
    assert done.exit_code == 7 and done.peak == 20 << 20 and "ran 7" in done.output


def test_no_memory(tmp_path):
    (tmp_path / "empty.py").write_text("import torch\n")
    done = tidemark.run([str(tmp_path / "empty.py")])
    assert done.peaks == [] and done.alive == [] and "no CUDA memory was recorded" in repr(done)
    with pytest.raises(tidemark.Misuse, match="has recorded no CUDA memory"):
        done.peak  # noqa: B018


@pytest.mark.parametrize("more, message", [({"gpu": "abacus"}, "abacus"), ({"capacity": "much"}, "--capacity"), ({"mode": "fast"}, "--mode"), ({"ranks": 2, "as_rank": [0], "of": 2}, "exclude")])
def test_mistakes(program, more, message):
    with pytest.raises(tidemark.Misuse, match=message) as error:
        tidemark.run([program, "0"], **more)
    assert "\n" not in str(error.value)
    with pytest.raises(tidemark.Misuse, match="no program is given"):
        tidemark.run([])


class Notebook:
    """The one call of IPython that the extension makes."""

    def register_magic_function(self, function, kind, name):
        assert (kind, name) == ("cell", "tidemark")
        self.magic = function


def test_cell():
    notebook = Notebook()
    tidemark.load_ipython_extension(notebook)
    done = notebook.magic(shlex.join(["--gpu", "l4-24g", "--capacity", "2GiB"]), "import torch\nx = torch.empty(1 << 20, device='cuda')\nprint(torch.cuda.mem_get_info()[1])\n")
    assert done.peaks[0]["allocated"] == 4 << 20 and str(2 << 30) in done.output, done.output
    with pytest.raises(tidemark.Misuse, match="--nonsense is not a flag with a value"):
        notebook.magic("--nonsense 1", "pass")
