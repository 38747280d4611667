"""Goldens: written, compared, changed, edited by hand, missing, twice in a test, by ranks that differ."""
import os
import random
import re
from pathlib import Path

import pytest
from test_outcomes import run

from tidemark import golden
from tidemark.verdict import Misuse

TEST = """import pytest, tidemark, torch
def forward(memory, size):
    with memory.phase("forward"):
        model = torch.nn.Linear(256, 256, bias=False, device="cuda")
        kept = model(torch.ones(size, 256, device="cuda"))
    memory.matches_golden()
@pytest.mark.parametrize("size", [512, 513, 514, 515, 516])
@tidemark.ranks(2)
def test_sizes(memory, size):
    forward(memory, size)
@tidemark.ranks(2)
def test_differs(memory):
    forward(memory, 512 + 2 * memory.rank)
@tidemark.ranks(2)
def test_twice(memory):
    forward(memory, 512)
    memory.matches_golden()
@tidemark.ranks(2)
def test_named(memory):
    forward(memory, 512)
    memory.matches_golden('after')
"""


def pytest_of(folder, *words):
    (folder / "test_it.py").write_text(TEST)
    outcomes, output, _ = run(folder, str(folder / "test_it.py"), "--rootdir", folder, *words)
    return outcomes, output


def place(folder, test, name=""):
    return Path(golden.place(str(folder), "test_it.py::" + test, name))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("goldens")
    outcomes, output = pytest_of(folder)
    assert all(one[0] == "failure" and "there is no golden" in one[1] for test, one in outcomes.items() if test != "test_twice") and len(outcomes) == 8, output
    assert not (folder / "goldens").exists()
    return folder, *pytest_of(folder, "--tidemark-update")


# holds: python/README.md, Goldens
def test_what_is_written(tmp_path):
    """The weight has 256 x 256 floats, the input and the output 512 x 256 each; cuBLAS has its workspace besides."""
    outcomes, output = pytest_of(tmp_path, "-k", "test_sizes and 512")
    assert outcomes["test_sizes[512]"][0] == "failure" and "there is no golden" in outcomes["test_sizes[512]"][1] and not (tmp_path / "goldens").exists(), output
    outcomes, output = pytest_of(tmp_path, "-k", "test_sizes and 512", "--tidemark-update")
    assert list(outcomes.items()) == [("test_sizes[512]", ("passed", ""))], output
    text = place(tmp_path, "test_sizes[512]").read_text()
    assert '["every rank".phases."forward"]' in text and "allocated = " in text and "parameters\" = 262_144\n" in text, text
    assert '"cuBLAS workspaces" = 33_554_432\n' in text, text
    assert re.search(r'\["made with"\]\ngpu = "\S+"\ncapacity = [\d_]+\ntorch = "2\.', text) and 'ranks = 2\n' in text, text
    kinds = [int(size.replace("_", "")) for size in re.findall(r"= ([\d_]+)", text.split('"alive at the peak"]')[1])]
    assert sum(kinds) == int(re.search(r'"test"\]\n(?:.*\n)*?requested = ([\d_]+)', text)[1].replace("_", "")), text


# night: one more pytest for goldens that collide
def test_two_of_one_test(written):
    folder, outcomes, output = written
    assert outcomes["test_twice"][0] == "error" and "a second golden needs a name" in outcomes["test_twice"][1] and not place(folder, "test_twice").exists(), output
    assert outcomes["test_named"][0] == "passed" and place(folder, "test_named").exists() and place(folder, "test_named", "after").exists(), output


# night: one more pytest of two ranks
def test_ranks_that_differ(written):
    text = place(written[0], "test_differs").read_text()
    assert '["rank 0".phases."forward"]' in text and '["rank 1".phases."forward"]' in text and "every rank" not in text, text


# night: three more runs of pytest
def test_the_same_changed_and_edited_by_hand(written):
    folder, *_ = written
    texts = [place(folder, f"test_sizes[{size}]").read_text() for size in range(512, 517)]
    edits = {513: texts[0], 514: texts[2].replace("requested = ", "requested = 1"), 515: texts[3] + "[", 516: ""}  # 513: as if the golden of another size were this test's
    for size, text in edits.items():
        place(folder, f"test_sizes[{size}]").write_text(text)
    outcomes, output = pytest_of(folder)
    assert [outcomes[test][0] for test in ("test_sizes[512]", "test_differs", "test_named")] == 3 * ["passed"], output
    assert outcomes["test_sizes[513]"][0] == "failure", output  # one more row of the input, and one of the output
    for line in ("phase forward, requested: 34,865,152 -> 34,867,200 (+2,048)", "alive at the peak, activations: 524,288 -> 525,312 (+1,024)", "if this is wanted: pytest --tidemark-update"):
        assert line in output, output
    for size, message in (514, "was edited by hand"), (515, "cannot be read"), (516, "was edited by hand"):
        outcome, line = outcomes[f"test_sizes[{size}]"]
        assert outcome == "error" and message in line and "run pytest --tidemark-update" in line, output
    outcomes, output = pytest_of(folder, "--tidemark-update")
    assert [place(folder, f"test_sizes[{size}]").read_text() for size in range(512, 517)] == texts, output


def test_any_value_of_another_type(tmp_path):
    """A golden whose digest fits is read, or cannot be read and is named: whatever type a value or a table of it has."""
    drawn = random.Random()
    head = '["made with"]\ngpu = "h"\n'
    values = ["1", "-1", "1.5", '"x"', "true", "[1]", "{a = 1}", "1979-05-27", "nan", "0x10", "[]", "{}"]
    for _ in range(400):
        table = drawn.choice(['["every rank".phases."forward"]\n', '["every rank"]\nphases = 1\n', '["every rank"."alive at the peak"]\n', '["rank 0".phases]\n', '["every rank"]\n', ""])
        body = head * drawn.randint(0, 1) + "\n" + table + "".join(f"{name} = {drawn.choice(values)}\n" for name in drawn.sample(["allocated", "reserved", "active", "x"], drawn.randint(0, 4)))
        if drawn.random() < 0.3:
            body += '\n["every rank"."alive at the peak"]\nactivations = 1\n'
        path = tmp_path / "golden.toml"
        path.write_text(f'digest = "{golden.digest(body)}"\n\n{body}')
        try:
            record, made_with = golden.load(str(path), 0)
            golden.differences(record, {"phases": {"forward": {"allocated": 2}}, "alive at the peak": {}})
            dict(made_with).get("gpu")
        except Misuse as why:
            assert str(path) in str(why) and "\n" not in str(why)
    for text in ("[" * 100_000, "x = " + "[" * 100_000, "\0", ""):
        path.write_text(text)
        with pytest.raises(Misuse, match="golden.toml"):
            golden.load(str(path), 0)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Misuse, match="a pipe or a device"):
        golden.load(str(path), 0)
