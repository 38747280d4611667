"""Results that a command keeps, so that a run which was ended goes on."""
import hashlib
import json
from pathlib import Path

from environments import TIDEMARK


class Kept:
    """Entries of this tidemark with this key, a line of JSON each, in a file that grows as soon as one is known; nothing is kept if `path` is None. A class
    below it has `take(entry)`, which is called for each entry: those of the file, and each new one."""

    def __init__(self, path, **key):
        self.key = {**key, "tidemark": hashlib.sha256(Path(TIDEMARK).read_bytes()).hexdigest()}
        self.file = None
        if path is None:
            return
        path = Path(path)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the writer was ended within the line
            if all(entry.get(name) == value for name, value in self.key.items()):
                self.take(entry)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("a", encoding="utf-8")
        if text and not text.endswith("\n"):
            self.file.write("\n")

    def take(self, entry):
        raise NotImplementedError

    def add(self, **entry):
        entry |= self.key
        if self.file:
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()
        self.take(entry)
