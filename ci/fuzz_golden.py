"""The reader of goldens, which is Python, as a target of libFuzzer by atheris: ci/fuzz runs it with libFuzzer's arguments. The bytes are a golden's file, and
then what stands below a digest that fits."""
import os
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
with atheris.instrument_imports(include=["tidemark.golden", "tidemark.toml", "tidemark.files", "tomllib"]):
    from tidemark import golden
    from tidemark.verdict import Misuse

MEASURED = {"phases": {"forward": {"allocated": 2}}, "alive at the peak": {}}
MADE_WITH = {"gpu": "h100-80g", "ranks": 2}


def read(path, content):
    path.write_bytes(content)
    for rank in (0, 1):
        try:
            record, made_with = golden.load(str(path), rank)
        except Misuse as why:
            assert str(path) in str(why) and "\n" not in str(why), repr(str(why))
            continue
        "\n".join(golden.differences(record, MEASURED)).encode()
        [before for key, value in MADE_WITH.items() if (before := made_with.get(key)) != value]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "golden.toml")

        def both(content):
            read(path, content)
            body = content.decode(errors="replace").replace("\r", " ")
            read(path, f'digest = "{golden.digest(body)}"\n\n{body}'.encode())

        atheris.Setup(sys.argv, both, internal_libfuzzer=True)
        atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()
