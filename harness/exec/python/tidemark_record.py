"""The record of a Python process under `tidemark exec`: its memory, and what else the platform knows of it."""
import atexit
import functools
import os
import sys
import threading

import tidemark_launcher
from tidemark_platform import stop
from tidemark_settings import settings


class Program:
    """The program's own code: what is neither PyTorch's nor tidemark's."""

    def __init__(self, torch):
        self.others = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep)

    def frame(self, depth):
        """Its innermost frame on this thread, seen from `depth` calls above; or None."""
        frame, inner = sys._getframe(depth + 1), None
        while frame:
            if not frame.f_code.co_filename.startswith(self.others):
                if frame.f_code.co_name not in ("__torch_function__", "__torch_dispatch__"):  # hooks before every operator
                    return frame
                inner = inner or frame
            frame = frame.f_back
        return inner


class Places:
    """Lines of the program for the reports of races."""

    def __init__(self, program, layer):
        import ctypes

        self.program, self.layer, self.numbers = program, layer, {}
        self.lock = threading.Lock()
        self.listener = ctypes.CFUNCTYPE(ctypes.c_int)(self.number)
        layer.tidemark_layer_on_place(self.listener)
        atexit.register(layer.tidemark_layer_on_place, None)

    def number(self):
        frame = self.program.frame(1)
        if not frame:
            return -1
        place = (frame.f_code, frame.f_lineno)
        with self.lock:
            if place not in self.numbers:
                self.numbers[place] = len(self.numbers)
                name = f"{frame.f_code.co_name} {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
                self.layer.tidemark_layer_place_name(self.numbers[place], name.encode())
            return self.numbers[place]


class Answers:
    """The answers that the program gets about values that are not known, with the lines that asked."""

    def __init__(self, program, layer):
        import ctypes

        self.program, self.layer = program, layer
        layer.tidemark_record_answer.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
        self.listener = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)(self.add)
        layer.tidemark_layer_on_event(self.listener)
        atexit.register(layer.tidemark_layer_on_event, None)

    def add(self, operation, answer, decides):
        frame = self.program.frame(1)
        line = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
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
                            ("setting", (ctypes.c_char_p, ctypes.c_char_p)), ("begin", (ctypes.c_char_p, ctypes.c_int))):
            getattr(self.layer, "tidemark_record_" + name).argtypes = types
        self.layer.tidemark_record_allocated.restype = ctypes.c_int64
        self.layer.tidemark_record_error.restype = ctypes.c_char_p
        self.layer.tidemark_record_builtin.restype = ctypes.py_object
        self.history = settings()["history"]
        self.pid, self.rank = os.getpid(), None
        self.lock = threading.Lock()
        self.labels = None
        self.follows = False
        if self.history:
            self.tell_python()
            sys.modules["tidemark_frames"].follow_threads(self.layer)
            self.labels = sys.modules["tidemark_labels"].Labels(torch, self.layer, self.libraries)
        torch.cuda._lazy_call(self.follow)
        for name in ("_exit", "execv", "execve"):
            self.write_before(name)
        self.learn_rank()
        os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.end)

    def tell_python(self):
        try:
            sys.modules["tidemark_frames"].tell(self.layer)
        except LookupError as error:
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
        elif self.history:
            stop("--report needs PyTorch's own allocator: " + self.layer.tidemark_record_error().decode(errors="replace"))

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
        update = c10d._update_default_pg

        def updated(group):
            if group is not None:
                self.rank = group.rank()
                self.layer.tidemark_record_rank(self.rank)
            return update(group)

        c10d._update_default_pg = updated

    def forked(self):
        """The child of a fork writes for itself if it comes to use CUDA; multiprocessing ends it by os._exit."""
        self.pid, self.rank, self.lock, self.follows = os.getpid(), None, threading.Lock(), False
        from multiprocessing import util

        util.register_after_fork(self, lambda record: util.Finalize(record, record.leave, exitpriority=0))

    def end(self):
        if self.labels and self.follows and os.getpid() == self.pid:
            self.labels.label_gradients()
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
