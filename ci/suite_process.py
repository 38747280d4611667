"""Processes of ci/suite.py: one that is killed with all that it has started, and one of pytest, with the events of its plugin."""
import json
import os
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

START = 600  # seconds until the first test begins: the platform is built for a new torch, and test_ops.py makes tens of thousands of tests


class Tree:
    """A process with all that it starts, which is found by a variable of the environment and killed at the end, whatever its group or parent is."""

    def __init__(self, command, scratch, environment):
        self.mark, self.log = f"TIDEMARK_SUITE_TREE={uuid.uuid4()}", scratch / "log"
        name, _, value = self.mark.partition("=")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=scratch, start_new_session=True,
                                            env={**os.environ, **environment, name: value})
        Path(f"/proc/{self.process.pid}/oom_score_adj").write_text("1000")  # a test that takes all memory ends itself and nothing else

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(200):  # a process that is killed may have started another one
            members = self.members()
            for member in members:
                try:
                    os.kill(member, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.poll()
            if not members:
                break
            time.sleep(0.05)
        self.process.kill()
        self.process.wait()

    def members(self):
        processes = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    processes.append(int(folder.name))
            except OSError:
                pass  # it has ended, or is another user's
        return processes

    def ending(self):
        """How the process has ended, with the last words of its log."""
        code = self.process.poll()
        if code is None:
            return self.words("did not end")
        number = -code if code < 0 else code - 128 if code > 128 else 0
        named = number in set(signal.Signals)
        return self.words(f"was ended by {signal.Signals(number).name}" if named else f"ended with {code}")

    def words(self, how):
        lines = [line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip() and not line.startswith(("tidemark: ", "rank "))]
        return "\n".join([*lines[-40:], f"Error: the process {how}"])


@dataclass
class Process:
    """One process of pytest: the events that its plugin writes, and its end."""
    flight: str = ""  # the unit that has begun and not ended
    late: bool = False
    ending: str = ""

    def events(self, place, file, words, left):
        """Yields the end of each unit of `left`, and takes it out, until the process ends, none is left or one takes longer than the limit."""
        path = place.scratch / "events"
        path.write_text("")
        with path.open(encoding="utf-8") as events, place.started(file, words) as tree:
            half, since, limit = "", time.monotonic(), max(START, place.limit)
            while left:
                ended = tree.process.poll() is not None
                *lines, half = (half + events.read()).split("\n")
                for event in map(json.loads, lines):
                    since, limit = time.monotonic(), place.limit
                    self.flight = "" if "outcome" in event else event["unit"]
                    if "outcome" in event and event["unit"] in left:
                        left.remove(event["unit"])
                        yield event
                self.late = time.monotonic() - since > limit
                if ended or self.late:
                    break
                time.sleep(0.1)
            self.ending = tree.words(f"did not end within {limit} s") if self.late else tree.ending()
