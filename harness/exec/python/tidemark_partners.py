"""Objects and small values between the ranks of one `tidemark exec --as-rank R,R,...`: each rank is a process, and each object that one sends to another
is a file, for which the receiver waits. The folder also tells the command which ranks wait and which have what they waited for, and the
ranks which have ended. The command gives a core back to a rank by removing its file `ready`."""
import contextlib
import os
import threading
import time

import tidemark_files
from tidemark_platform import refusal
from tidemark_settings import settings

PAUSE = 0.02  # seconds between two looks at the folder
SHOWN = 64  # ranks that a message names


def pause():
    threading.Event().wait(PAUSE)  # time.sleep would pass on the program's virtual clock


class Partners:
    def __init__(self, rank):
        self.rank, self.folder = rank, settings()["partners"]
        self.present = settings()["present"]
        self.patience = float(os.environ.get("TIDEMARK_TIMEOUT") or 300)
        self.counts = {}
        self.inside = 0  # calls of PyTorch's that send an object, whose content is a file already

    @contextlib.contextmanager
    def within(self):
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    def refuse(self, source):
        raise refusal(f"tidemark exec: rank {self.rank} wants an object of rank {source}, which is absent under --as-rank. Tell the "
                      "program instead, or run all ranks with --ranks")

    def place(self, source, receiver):
        """The file of the next object from one rank to another."""
        number = self.counts[source, receiver] = self.counts.get((source, receiver), 0) + 1
        return os.path.join(self.folder, f"{source}-{receiver}-{number}")

    def send(self, receiver, content):
        place = self.place(self.rank, receiver)
        with tidemark_files.create(place + ".new", binary=True) as file:
            file.write(content)
        os.replace(place + ".new", place)

    def receive(self, source, group):
        """The bytes that `source` sends to this rank; an error where it is absent, ends before it does, or nothing moves any more."""
        if source not in self.present:
            raise refusal(f"tidemark exec: rank {self.rank} wants an object of rank {source}, which is absent under --as-rank. "
                          f"{self.advice(source, group)}, tell the program instead (of a PipelineStage: input_args and output_args), or "
                          "run all ranks with --ranks")
        place = self.place(source, self.rank)
        if not os.path.exists(place):
            waits, ready = (os.path.join(self.folder, f"rank {self.rank}.{word}") for word in ("waits", "ready"))
            tidemark_files.create(waits).close()
            try:
                self.wait(source, place)
            except RuntimeError:
                os.remove(waits)
                raise
            os.rename(waits, ready)
            while os.path.exists(ready):
                pause()
        with open(place, "rb") as file:
            return file.read()

    def wait(self, source, place):
        while not os.path.exists(place):
            over = os.path.exists(os.path.join(self.folder, f"rank {source}.ended"))  # before the last look for the file
            if over and not os.path.exists(place):
                raise RuntimeError(f"tidemark exec: rank {self.rank} wants an object of rank {source}, which has ended without sending it")
            if time.time() - os.stat(self.folder).st_mtime > self.patience and not any(one.endswith(".ready") for one in os.listdir(self.folder)):
                raise RuntimeError(f"tidemark exec: rank {self.rank} has waited for an object of rank {source}, and no rank has sent or "
                                   f"started to wait for {self.patience:.0f} s: do ranks wait for each other? (--timeout)")
            pause()

    def advice(self, source, group):
        wanted = sorted({*self.present, source, *(group if len(group) <= SHOWN else ())})
        return f"Name the ranks that it needs as well (--as-rank {','.join(map(str, wanted))})"
