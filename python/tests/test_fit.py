"""`tidemark.fit` returns the table of `tidemark fit`."""
import sys

import pytest

import tidemark

PROGRAM = "import sys, torch\nx = torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device='cuda')\n"


# holds: README.md, Your script
# holds: harness/fit/README.md, What fits means
# holds: python/README.md, What fits a GPU
# holds: reports/fit/
def test_rows(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    table = tidemark.fit([sys.executable, tmp_path / "train.py", "{size}"], vary={"size": [100, 20000]}, gpu="t4-16g", cache=str(tmp_path / "cache"))
    assert [(row["size"], row["answer"]) for row in table.rows] == [("100", "fits"), ("20000", "does not fit")]
    assert table.rows[0]["reserved"] == 100 << 20
    assert table.rows[1]["missing"] == (20000 << 20) - table.rows[1]["capacity"]
    assert "<td>0.10 GiB</td>" in table._repr_html_() and "size 100" in repr(table)
    assert table.largest("t4-16g")["size"] == "100" and table.largest("h100-80g") is None


def test_wrong_input_is_the_command_s_line(tmp_path):
    with pytest.raises(ValueError, match="fit: --vary size: no word of the command has {size}"):
        tidemark.fit([sys.executable, "train.py"], vary={"size": range(1, 9)})
