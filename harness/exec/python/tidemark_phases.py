"""Phases of a program, for its memory snapshot: forward (an outermost module runs), backward (autograd runs), optimizer, and the program's own
ranges of record_function and NVTX. Each is a stretch of the allocator's events, between two counts of allocations and completed frees."""
import os
import sys
import threading


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
        autograd, nvtx, function = self.torch.autograd, self.torch.cuda.nvtx, self.torch.autograd.profiler.record_function
        for name in ("backward", "grad"):
            setattr(autograd, name, self.as_backward(getattr(autograd, name)))
        enter, leave, push, pop, phases, pushed = function.__enter__, function.__exit__, nvtx.range_push, nvtx.range_pop, self, threading.local()

        def entered(self):
            self.tidemark_own = phases.is_programs_own()
            if self.tidemark_own:
                phases.enter(str(self.name))
            return enter(self)

        def left(self, *error):
            if getattr(self, "tidemark_own", False):
                phases.leave(str(self.name))
            return leave(self, *error)

        def range_push(message):
            pushed.names = [*getattr(pushed, "names", []), str(message)]
            phases.enter(str(message))
            return push(message)

        def range_pop():
            if getattr(pushed, "names", []):
                phases.leave(pushed.names.pop())
            return pop()

        function.__enter__, function.__exit__, nvtx.range_push, nvtx.range_pop = entered, left, range_push, range_pop

    def is_programs_own(self):
        """Whether the caller's caller is no code of PyTorch's."""
        return not sys._getframe(2).f_code.co_filename.startswith(self.place)

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
