"""Phases of a program, for the record of its memory: forward (an outermost module runs), backward (autograd runs), optimizer, and the program's
own ranges of record_function and NVTX."""
import os
import sys
import threading


def follow_ranges(torch, begin, end):
    """`begin(name, caller)` is called before each range of record_function (`caller`: the frame) and NVTX (None), `end(what it returned)` after it."""
    function, nvtx, pushed = torch.autograd.profiler.record_function, torch.cuda.nvtx, threading.local()
    own = f"tidemark_range_{id(begin)}"  # a range has several followers
    enter, leave, push, pop = function.__enter__, function.__exit__, nvtx.range_push, nvtx.range_pop

    def entered(self):
        setattr(self, own, begin(str(self.name), sys._getframe(1)))
        return enter(self)

    def left(self, *error):
        if hasattr(self, own):
            end(getattr(self, own))
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
    def __init__(self, torch, layer, trace, growth):
        self.torch, self.trace, self.growth = torch, trace, growth
        self.tell, self.tell_end = layer.tidemark_record_builtin(b"phase"), layer.tidemark_record_builtin(b"phase_end")
        self.backwards = 0
        self.after_backward = None
        self.place = os.path.dirname(torch.__file__) + os.sep

    def enter(self, name):
        step = self.tell(name)
        self.trace.begun(name, step)
        self.growth.begun(name, step)

    def leave(self, name):
        self.tell_end(name)
        self.trace.ended(name)

    def follow(self, after_backward):
        """Begins to notice backwards and the program's ranges."""
        self.after_backward = after_backward
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
        modes, fake = self.torch._C._get_dispatch_mode, self.torch._C._TorchDispatchModeKey.FAKE

        def backward(*arguments, **keywords):
            if modes(fake) is not None:  # torch.compile looks at what it compiles
                return run(*arguments, **keywords)
            self.backwards += 1
            if self.backwards == 1:
                self.enter("backward")
            try:
                return run(*arguments, **keywords)
            finally:
                self.backwards -= 1
                if self.backwards == 0:
                    self.after_backward()
                    self.leave("backward")

        return backward
