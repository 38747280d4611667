"""Goldens: written, compared, changed, edited by hand, missing, twice in a test, by ranks that differ."""
import re
from pathlib import Path

import pytest
from test_outcomes import run

from tidemark import golden

TEST = """import pytest, tidemark, torch
@pytest.mark.parametrize("size", [{size}])
@tidemark.ranks(2)
def test_it(memory, size):
    with memory.phase("forward"):
        model = torch.nn.Linear(256, 256, bias=False, device="cuda")
        kept = model(torch.ones(size + {differ} * memory.rank, 256, device="cuda"))
    memory.matches_golden()
    {more}
"""


def pytest_of(folder, *words, size=512, differ=0, more="pass", name="test_it.py"):
    (folder / name).write_text(TEST.format(size=size, differ=differ, more=more))
    outcomes, output, _ = run(folder, str(folder / name), "--rootdir", folder, *words)
    return [one for test, one in outcomes.items()][0], output


def goldens(folder):
    return {path.name: path for path in (folder / "goldens").glob("*")} if (folder / "goldens").exists() else {}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("goldens")
    found, output = pytest_of(folder)
    assert found[0] == "failure" and "there is no golden" in found[1] and not goldens(folder), output
    found, output = pytest_of(folder, "--tidemark-update")
    assert found[0] == "passed", output
    return folder, *goldens(folder).values()


def test_what_is_written(written):
    """The weight has 256 x 256 floats, the input and the output 512 x 256 each; cuBLAS has its workspace besides."""
    text = written[1].read_text()
    assert '["every rank".phases."forward"]' in text and "allocated = " in text and "parameters\" = 262_144\n" in text, text
    assert '"cuBLAS workspaces" = 33_554_432\n' in text, text
    assert re.search(r'\["made with"\]\ngpu = "\S+"\ncapacity = [\d_]+\ntorch = "2\.', text) and 'ranks = 2\n' in text, text
    kinds = [int(size.replace("_", "")) for size in re.findall(r"= ([\d_]+)", text.split('"alive at the peak"]')[1])]
    assert sum(kinds) == int(re.search(r'"test"\]\n(?:.*\n)*?requested = ([\d_]+)', text)[1].replace("_", "")), text


def test_the_same_and_changed(written):
    folder, path = written
    assert pytest_of(folder)[0][0] == "passed"
    before = path.read_text()
    Path(golden.place(str(folder), "test_it.py::test_it[513]", "")).write_text(before)  # as if the golden of another size were this test's
    found, output = pytest_of(folder, size=513)
    assert found[0] == "failure", output  # one more row of the input, and one of the output
    for line in ("phase forward, requested: 34,865,152 -> 34,867,200 (+2,048)", "alive at the peak, activations: 524,288 -> 525,312 (+1,024)", "if this is wanted: pytest --tidemark-update"):
        assert line in output, output


def test_edited_by_hand(written):
    folder, path = written
    text = path.read_text()
    for changed, said in ((text.replace("requested = ", "requested = 1"), "was edited by hand"), (text + "[", "cannot be read"), ("", "was edited by hand")):
        path.write_text(changed)
        found, output = pytest_of(folder)
        assert found[0] == "error" and said in found[1] and "run pytest --tidemark-update" in found[1], output
    assert pytest_of(folder, "--tidemark-update")[0][0] == "passed" and path.read_text() == text


def test_two_of_one_test(tmp_path):
    found, output = pytest_of(tmp_path, "--tidemark-update", more="memory.matches_golden()")
    assert found[0] == "error" and "a second golden needs a name" in found[1] and not goldens(tmp_path), output
    found, output = pytest_of(tmp_path, "--tidemark-update", more="memory.matches_golden('after')")
    assert found[0] == "passed" and len(goldens(tmp_path)) == 2 and any(".after" in name for name in goldens(tmp_path)), output


def test_ranks_that_differ(tmp_path):
    assert pytest_of(tmp_path, "--tidemark-update", differ=2)[0][0] == "passed"
    text, = (path.read_text() for path in goldens(tmp_path).values())
    assert '["rank 0".phases."forward"]' in text and '["rank 1".phases."forward"]' in text and "every rank" not in text, text
    assert pytest_of(tmp_path, differ=2)[0][0] == "passed"
