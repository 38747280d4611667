"""What a program of `tidemark exec --report` held, to the byte."""
import json
import re
import subprocess
from pathlib import Path

from testing.said import TIDEMARK


def folder_of(result):
    return Path(result.words[result.words.index("--report") + 1])


def alive(result, kind):
    """The bytes of a kind that are alive at the highest peak, and its lines. Checks that the terminal names the kind too."""
    result.check(re.search(rf"^    {kind} +<?[\d.]+ \w+ ", result.err[result.err.index("alive at the highest peak"):], re.M), f"no {kind} are alive")
    parts = [part for trial in json.loads((folder_of(result) / "report.json").read_text())["trials"] for part in trial["alive"]["parts"] if part["kind"] == kind]
    lines = (f"{part['bytes']:,} in {part['count']} block{'' if part['count'] == 1 else 's'}" + "".join(", " + part[key] for key in ("module", "line") if part[key]) for part in parts)
    return sum(part["bytes"] for part in parts), "".join(line + "\n" for line in lines)


def left(result, kind):
    """The bytes of a kind that the program had not freed at its end."""
    result.check(re.search(rf"^alive at the program's end, .*[( ]{kind} \d", result.err, re.M), f"{kind} at the end")
    (record,) = folder_of(result).glob("*.record")
    shown = subprocess.run([TIDEMARK, "snapshot", "show", record, "--format", "json"], capture_output=True, check=True)
    return sum(part["bytes"] for part in json.loads(shown.stdout)["devices"][0]["left"] if part["kind"] == kind)
