"""The record of a Python process under `tidemark exec`: its memory, and what else the platform knows of it."""
import atexit
import contextlib
import functools
import gc
import os
import sys
import threading

import tidemark_collector
import tidemark_imported
import tidemark_launcher
from tidemark_platform import stop
from tidemark_settings import settings


class Program:
    """The program's own code: what is neither PyTorch's nor tidemark's."""

    def __init__(self, torch):
        self.others = os.path.dirname(torch.__file__) + os.sep

    def place(self):
        """Function, file and line of its innermost frame on this thread; or None. No frame becomes an object of Python's, where the recorder knows its frames."""
        inner = None
        for place in tidemark_collector.own.stack():
            if not place[1].startswith(self.others):
                if place[0] not in ("__torch_function__", "__torch_dispatch__"):  # hooks before every operator
                    return place
                inner = inner or place
        return inner


class Places:
    """Lines of the program for the reports of races."""

    def __init__(self, program, layer):
        import ctypes

        self.program, self.layer, self.numbers = program, layer, {}
        self.lock = threading.Lock()
        self.listener = ctypes.CFUNCTYPE(ctypes.c_int)(tidemark_collector.own.of(self.number))
        layer.tidemark_layer_on_place(self.listener)
        atexit.register(layer.tidemark_layer_on_place, None)

    def number(self):
        place = self.program.place()
        if place is None:
            return -1
        with self.lock:
            if place not in self.numbers:
                self.numbers[place] = len(self.numbers)
                name = f"{place[0]} {os.path.basename(place[1])}:{place[2]}"
                self.layer.tidemark_layer_place_name(self.numbers[place], name.encode())
            return self.numbers[place]


class Answers:
    """The answers that the program gets about values that are not known, with the lines that asked."""

    def __init__(self, program, layer):
        import ctypes

        self.program, self.layer = program, layer
        layer.tidemark_record_answer.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
        self.listener = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)(tidemark_collector.own.of(self.add))
        layer.tidemark_layer_on_event(self.listener)
        atexit.register(layer.tidemark_layer_on_event, None)

    def add(self, operation, answer, decides):
        place = self.program.place()
        line = f"{place[1]}:{place[2]}" if place else ""
        self.layer.tidemark_record_answer(operation, answer, decides, os.fsencode(line))


def free(place, ending):
    """The place, with a number where a file of that name is there."""
    number = 0
    while os.path.exists(path := place + (f"-{number}" if number else "") + ending):
        number += 1
    return path.removesuffix(ending)


class Record:
    """What `tidemark exec` reads of this process: PID.record, the record of its memory, and PID.json with the rest. No thread of Python's writes them
    (../../virtual/recorder/process_file.h)."""

    def __init__(self, torch, layer):
        import ctypes

        self.torch, self.libraries = torch, ctypes.CDLL(None)
        self.layer = ctypes.PyDLL(None, handle=layer._handle)  # its calls are short: Python's lock is kept
        for name, types in (("label", (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)),
                            ("in_graph", (ctypes.c_void_p,)), ("is_labelled", (ctypes.c_void_p,)), ("born", (ctypes.c_void_p,)),
                            ("setting", (ctypes.c_char_p, ctypes.c_char_p)), ("freed", (ctypes.c_char_p,)), ("begin", (ctypes.c_char_p, ctypes.c_int))):
            getattr(self.layer, "tidemark_record_" + name).argtypes = types
        self.layer.tidemark_record_allocated.restype = self.layer.tidemark_record_born.restype = ctypes.c_int64
        self.layer.tidemark_record_error.restype = ctypes.c_char_p
        self.layer.tidemark_record_builtin.restype = ctypes.py_object
        self.history = settings()["history"]
        self.pid, self.rank = os.getpid(), None
        self.lock = threading.Lock()
        self.labels = None
        self.follows = False
        self.tell_python()
        if self.history:
            sys.modules["tidemark_frames"].follow_threads(self.layer)
            self.labels = sys.modules["tidemark_labels"].Labels(torch, self.layer, self.libraries)
        torch.cuda._lazy_call(tidemark_collector.own.of(self.follow))
        for name in ("_exit", "execv", "execve"):
            self.write_before(name)
        self.learn_rank()
        os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.end)

    def tell_python(self):
        try:
            sys.modules["tidemark_frames"].tell(self.layer)
        except LookupError as error:
            if self.history:
                print(f"tidemark: --report: allocations have no Python lines: {error}", file=sys.stderr, flush=True)

    def follow(self):
        """CUDA has started: the record begins."""
        self.place = free(os.path.join(os.environ["TIDEMARK_EXEC"], str(self.pid)), ".record")
        if self.layer.tidemark_record_begin(os.fsencode(self.place + ".record"), self.history) != 0:
            stop("the record of this process cannot be made: " + self.layer.tidemark_record_error().decode(errors="replace"))
        self.follows = self.layer.tidemark_record_follow() == 0
        rank = self.known_rank()
        if rank is not None:
            self.layer.tidemark_record_rank(rank)
        if self.follows and self.history:
            sys.modules["tidemark_labels"].tell_settings(self.torch, self.layer)
            self.torch._C._cuda_attach_out_of_memory_observer(tidemark_collector.own.of(self.full))
        elif self.history:
            stop("--report needs PyTorch's own allocator: " + self.layer.tidemark_record_error().decode(errors="replace"))

    def full(self, *_):
        """The allocator is about to raise an out-of-memory error."""
        if self.follows and os.getpid() == self.pid:
            with contextlib.suppress(Exception):  # the program gets its own error
                self.labels.label_at_end()

    def known_rank(self):
        return self.rank if self.rank is not None else tidemark_launcher.rank()

    def write_before(self, name):
        """Functions of os that end this program's process without the end of Python."""
        end = getattr(os, name)

        def ending(*words, **more):
            # In a child of a fork that does not use CUDA nothing is written; a signal may have come while this thread was writing.
            if os.getpid() == self.pid and self.lock.acquire(timeout=1):
                self.lock.release()
                self.write()
            try:
                end(*words, **more)
            except OSError:  # no such program: this one goes on
                if self.follows and os.getpid() == self.pid:
                    self.layer.tidemark_record_end(0)
                raise

        setattr(os, name, functools.wraps(end)(ending))

    def learn_rank(self):
        """The rank is that of the process group, which may be gone at the end."""
        c10d = self.torch.distributed.distributed_c10d

        def before(group):
            if group is not None:
                self.rank = group.rank()
                self.layer.tidemark_record_rank(self.rank)

        c10d._update_default_pg = tidemark_collector.own.around(c10d._update_default_pg, before)

    def forked(self):
        """The child of a fork writes for itself if it comes to use CUDA; multiprocessing ends it by os._exit."""
        self.pid, self.rank, self.lock, self.follows = os.getpid(), None, threading.Lock(), False
        from multiprocessing import util

        util.register_after_fork(self, lambda record: util.Finalize(record, record.leave, exitpriority=0))

    def end(self):
        if self.labels and self.follows and os.getpid() == self.pid:
            self.labels.label_at_end()
            if gc.isenabled():
                self.layer.tidemark_record_program_ends()
                tidemark_imported.end()  # nothing that was imported before a copy began waits for the collector
                gc.collect()  # as Python does next; what cycles of references held until the end
        self.write()
        self.libraries.tidemark_device_program_ends()

    def leave(self):
        self.write()
        self.libraries.tidemark_nccl_leave()

    def write(self):
        """The last time, unless the process goes on."""
        with self.lock:
            if not self.follows or os.getpid() != self.pid:
                return
            self.layer.tidemark_record_end(1)
            if not self.labels:
                return
            rank = self.known_rank()
            try:
                self.labels.trace.write(self.place, f"process{self.pid}" if rank is None else f"rank{rank}")
            except FileNotFoundError:
                return  # the command has ended before this process
            except OSError as error:
                print(f"tidemark: the record of process {self.pid} cannot be written to {error.filename or self.place}: {error.strerror}", file=sys.stderr, flush=True)


def begin(torch, layer):
    program = Program(torch)
    record = Record(torch, layer)
    record.answers = Answers(program, layer)
    if os.environ.get("TIDEMARK_RACES") == "1":
        record.places = Places(program, layer)
    return record
