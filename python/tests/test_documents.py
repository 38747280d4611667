"""The examples of the documents run as they stand: those with a test under pytest, the others as programs. Those that a document's commands run
(<!-- file: train.py -->) are tried with these (harness/exec/documents_test.py). TIDEMARK_TEST_DRAW chooses a fourth of them."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_outcomes import run

ROOT = Path(__file__).parents[2]
EXAMPLES = [pytest.param(text, id=f"{path.relative_to(ROOT)}-{number}") for path in (ROOT / "README.md", ROOT / "python" / "README.md", *sorted((ROOT / "docs").glob("*.md")))
            for number, text in enumerate(re.findall(r"(?<!-->\n)^```python\n(.*?)^```", path.read_text(), re.M | re.S))]


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("text", EXAMPLES[int(DRAW) % 4::4] if (DRAW := os.environ.get("TIDEMARK_TEST_DRAW")) else EXAMPLES)
def test_example(text, tmp_path):
    if "def test_" not in text:
        subprocess.run([sys.executable, "-c", text], check=True, cwd=tmp_path, env=os.environ)
        return
    (tmp_path / "test_it.py").write_text(text)
    words = ["--tidemark-update"] if "matches_golden" in text else []
    for more in (words, []) if words else ([],):  # a golden is written, and then holds
        outcomes, output, code = run(tmp_path, str(tmp_path / "test_it.py"), "--rootdir", tmp_path, *more)
        assert code == 0 and {outcome for outcome, _ in outcomes.values()} == {"passed"}, output
