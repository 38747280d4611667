"""report.json against the schema that `tidemark report --schema` prints, by the Python package jsonschema."""
import functools
import json
import os
import subprocess
from pathlib import Path

import jsonschema

SMALL = 1 << 18  # bytes; larger reports are validated where all tests run (TIDEMARK_TEST_DRAW is not set)


@functools.lru_cache
def validator(binary):
    schema = json.loads(subprocess.run([binary, "report", "--schema"], capture_output=True, check=True, env=plain()).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def plain():
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}


def objections(binary, document):
    """A line for each thing that the schema does not allow."""
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in validator(binary).iter_errors(document)]


def expanded(binary, folder):
    """The record with every value in its place."""
    return json.loads(subprocess.run([binary, "report", str(folder), "--json"], capture_output=True, check=True, env=plain()).stdout)


def check_written(binary, words, begun, cwd=None):
    """The report that a command with these words has written since `begun` (time.time()) is valid as it lies on disk."""
    words = list(map(str, words))
    for flag, folder in zip(words, words[1:]):
        path = Path(cwd or ".", folder, "report.json")
        if flag == "--":
            return
        if flag not in ("--out", "--report") or not path.is_file() or path.stat().st_mtime < begun - 0.1:
            continue
        if path.stat().st_size > SMALL and "TIDEMARK_TEST_DRAW" in os.environ:
            continue
        document = json.loads(path.read_bytes())
        if document.get("schema") != "tidemark/report":  # of fit
            continue
        wrong = objections(binary, document)
        assert not wrong, f"{words}: {path} does not validate: {wrong[:3]}, {len(wrong)} in all"
