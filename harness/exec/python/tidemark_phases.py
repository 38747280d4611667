"""Phases of a program, for its memory snapshot: forward (an outermost module runs), backward (autograd runs), optimizer, and the program's own
ranges of record_function and NVTX. Each is a stretch of the allocator's events, between two counts of allocations and completed frees."""
import os
import sys
import threading


def follow_ranges(torch, begin, end):
    """`begin(name, caller)` is called before each range of record_function (`caller`: the frame) and NVTX (None), `end(what it returned)` after it."""
    function, nvtx, pushed = torch.autograd.profiler.record_function, torch.cuda.nvtx, threading.local()
    enter, leave, push, pop = function.__enter__, function.__exit__, nvtx.range_push, nvtx.range_pop

    def entered(self):
        self.tidemark_range = begin(str(self.name), sys._getframe(1))
        return enter(self)

    def left(self, *error):
        if hasattr(self, "tidemark_range"):
            end(self.tidemark_range)
        return leave(self, *error)

    def range_push(message):
        pushed.ranges = [*getattr(pushed, "ranges", []), begin(str(message), None)]
        return push(message)

    def range_pop():
        if getattr(pushed, "ranges", []):
            end(pushed.ranges.pop())
        return pop()

    function.__enter__, function.__exit__, nvtx.range_push, nvtx.range_pop = entered, left, range_push, range_pop


class Phases:
    def __init__(self, torch, trace):
        self.torch, self.trace = torch, trace
        self.rows = []  # device, allocations and frees before it, those at its end, name, step
        self.open = {}  # name -> the rows that have begun, without their ends, one list for each entry
        self.step, self.stepped = 1, False
        self.lock = threading.RLock()
        self.backwards = 0
        self.place = os.path.dirname(torch.__file__) + os.sep

    def counts(self, device):
        stats = self.torch._C._cuda_memoryStats(device)
        return [stats["allocation"]["all"]["allocated"], stats["active"]["all"]["freed"]]

    def enter(self, name, devices=None):
        with self.lock:
            if name == "optimizer":
                self.stepped = True
            elif self.stepped and name in ("forward", "backward"):  # the first one after the optimizers of a step
                self.step, self.stepped = self.step + 1, False
            begun = []
            if self.torch.cuda.is_initialized():
                begun = [[device, *self.counts(device), name, self.step] for device in devices or [self.torch.cuda.current_device()]]
            self.open.setdefault(name, []).append(begun)
            self.trace.begun(name, self.step)

    def leave(self, name):
        with self.lock:
            if self.open.get(name):
                self.rows += [self.ended(row) for row in self.open[name].pop()]
                self.trace.ended(name)

    def ended(self, row):
        device, allocations, frees, name, step = row
        return [device, allocations, frees, *self.counts(device), name, step]

    def all(self):
        """The rows; what has not ended yet ends now."""
        with self.lock:
            return self.rows + [self.ended(row) for entries in self.open.values() for begun in entries for row in begun]

    def follow(self):
        """Begins to notice backwards and the program's ranges."""
        for name in ("backward", "grad"):
            setattr(self.torch.autograd, name, self.as_backward(getattr(self.torch.autograd, name)))
        follow_ranges(self.torch, self.begin, self.end)

    def begin(self, name, caller):
        """A range; PyTorch's own are none."""
        if caller and caller.f_code.co_filename.startswith(self.place):
            return None
        self.enter(name)
        return name

    def end(self, name):
        if name is not None:
            self.leave(name)

    def as_backward(self, run):
        def backward(*arguments, **keywords):
            self.backwards += 1
            if self.backwards == 1:
                self.enter("backward")
            try:
                return run(*arguments, **keywords)
            finally:
                self.backwards -= 1
                if self.backwards == 0:
                    self.leave("backward")

        return backward
